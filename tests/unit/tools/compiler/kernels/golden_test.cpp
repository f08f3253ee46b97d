// SPDX-License-Identifier: Apache-2.0
// The bytes of every kernel. A change of a kernel, of program_builder or of the format changes
// them; then neff.sha256 gets the lines that this test prints, together with the reason.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "driver/base/format.h"
#include "driver/base/sha256.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::kernels {
namespace {

std::map<std::string, std::string> golden() {
  std::ifstream file(NEURON_SOURCE_DIR "/tests/unit/tools/compiler/kernels/neff.sha256");
  std::map<std::string, std::string> hashes;
  for (std::string hash, name; file >> hash >> name;) hashes[name] = hash;
  return hashes;
}

std::string hash_of(const std::vector<uint8_t>& bytes) {
  std::string text;
  for (const uint8_t byte : base::Sha256::of(bytes)) text += base::format("{:02x}", byte);
  return text;
}

TEST(Kernels, HaveTheBytesThatTheyHadBefore) {
  const std::string data = std::string(NEURON_SOURCE_DIR) + "/tools/compiler/kernels/digits";
  auto expected = golden();
  for (const std::string& name : names()) {
    const auto neff = build(name, data);
    ASSERT_TRUE(neff) << name << ": " << neff.error().sentence;
    EXPECT_EQ(hash_of(*neff) + "  " + name, expected[name] + "  " + name);
    expected.erase(name);
  }
  EXPECT_TRUE(expected.empty()) << "there is no kernel " << expected.begin()->first;
}

}  // namespace
}  // namespace neuron::kernels
