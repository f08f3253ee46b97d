// SPDX-License-Identifier: Apache-2.0
// The programs of traces.txt, which are traces that kernels of tests/system/nki gave: each has a
// call, a type, a pattern or an option that those before it have not. Some are refused: their
// sentences count. That values are right is what tests/system/nki tests on devices; here nothing
// changes unseen. A change of the lowering, of the builder or of the format changes them; then
// neff.sha256 gets the lines that this test prints, with the reason.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "driver/base/format.h"
#include "driver/base/sha256.h"
#include "tools/compiler/nki/lowering.h"

namespace neuron::nki {
namespace {

constexpr const char* kFolder = NEURON_SOURCE_DIR "/tests/unit/tools/compiler/nki/";

std::map<std::string, std::string> golden() {
  std::ifstream file(std::string(kFolder) + "neff.sha256");
  std::map<std::string, std::string> hashes;
  for (std::string hash, name; file >> hash >> name;) hashes[name] = hash;
  return hashes;
}

std::vector<std::string> traces() {
  std::ifstream file(std::string(kFolder) + "traces.txt");
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(R"({"op":"nki_trace")")) all.emplace_back();
    if (!all.empty()) all.back() += line + "\n";
  }
  return all;
}

// What a caller gets: the file, and what is said of its lines, tiles and transfers.
std::string text_of(const Lowered& lowered) {
  std::string text(lowered.neff.begin(), lowered.neff.end());
  for (const LineCost& line : lowered.lines) {
    text += base::format("{}:{} engine {}: {} instructions, {} ps\n", line.file, line.line,
                         line.engine, line.instructions, line.picoseconds);
  }
  for (const TilePlace& tile : lowered.tiles) {
    text += base::format("{}:{} {} {} {}+{} {}+{}\n", tile.file, tile.line, tile.name, tile.psum,
                         tile.start, tile.parts, tile.base, tile.bytes);
  }
  return text + base::format("{} transfers of {} bytes, {}", lowered.transfers,
                             lowered.transferred_bytes, lowered.first_wait);
}

std::string text_of(const Signature& signature) {
  std::string text = base::format("generation {}\n", signature.generation);
  for (const auto* list : {&signature.inputs, &signature.outputs}) {
    for (const KernelTensor& tensor : *list) {
      text += base::format("{} {}", tensor.name, tensor.dtype);
      for (const uint64_t size : tensor.shape) text += base::format(" {}", size);
      text += "\n";
    }
  }
  return text;
}

template <class Result>
std::string text_of_result(const Result& result) {
  return result ? text_of(*result) : result.error().sentence;
}

std::string hash_of(const std::string& trace) {
  std::string all = text_of_result(signature_of(trace));
  for (const uint32_t cores : {1u, 2u}) {
    all += text_of_result(lower(trace, {.physical_cores = cores}));
  }
  std::string text;
  for (const uint8_t byte :
       base::Sha256::of({reinterpret_cast<const uint8_t*>(all.data()), all.size()})) {
    text += base::format("{:02x}", byte);
  }
  return text;
}

TEST(TraceBytes, OfKernelsAreThoseOfBefore) {
  auto expected = golden();
  const std::vector<std::string> all = traces();
  ASSERT_EQ(all.size(), 90u);
  size_t programs = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string name = base::format("trace-{}", i + 1);
    EXPECT_EQ(hash_of(all[i]) + "  " + name, expected[name] + "  " + name);
    expected.erase(name);
    programs +=
        lower(all[i], {.physical_cores = 1}) || lower(all[i], {.physical_cores = 2}) ? 1 : 0;
  }
  EXPECT_EQ(programs, 72u) << "the others are refused, with their sentences";
  EXPECT_TRUE(expected.empty()) << "there is no " << expected.begin()->first;
}

}  // namespace
}  // namespace neuron::nki
