// SPDX-License-Identifier: Apache-2.0
// Random programs of 5,000 operations on the emulated core, in strict mode: what they leave in all
// tiles and buffers is what the same operations leave that are done one after the other.
// NEURON_TEST_BUILDER_PROGRAMS=200 makes so many programs; the seeds are 1, 2, ...
#include "tests/property/builder/random_program.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tools/execution/session.h"

namespace neuron::property {
namespace {

constexpr uint32_t kOperations = 5000;

bool device_is_open() {
  static const auto session = [] {
    setenv("NEURON_EMULATOR", "trn1.2xlarge", 0);
    return execution::Session::open(1);
  }();
  if (!session) ADD_FAILURE() << session.error().sentence;
  return session.has_value();
}

Memory words_of(const std::vector<uint8_t>& bytes) {
  Memory words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

// Both outputs, one behind the other.
void read(const execution::Model& model, Memory& memory) {
  for (const char* name : {"tiles", "buffers"}) {
    for (const execution::Port& port : model.ports()) {
      if (port.name != name) continue;
      const auto bytes = port.read();
      ASSERT_TRUE(bytes) << bytes.error().sentence;
      const Memory words = words_of(*bytes);
      memory.insert(memory.end(), words.begin(), words.end());
    }
  }
}

void check(uint32_t seed, uint32_t operations) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const RandomProgram random = random_program(seed, operations);
  builder::Program program("random");
  write(random, program);
  const auto neff = program.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  auto model = execution::Model::load(*neff, 0);
  ASSERT_TRUE(model) << model.error().sentence;
  const std::vector<Memory> expected = interpret(random, 2);
  for (size_t execution = 0; execution < expected.size(); ++execution) {
    const auto report = (*model)->execute();
    ASSERT_TRUE(report) << "execution " << execution << ": " << report.error().sentence;
    Memory found;
    read(**model, found);
    ASSERT_EQ(found.size(), expected[execution].size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i], expected[execution][i])
          << "execution " << execution << ", "
          << (i < kTileWords ? "tile " + std::to_string(i / (kRows * kColumns)) + ", row " +
                                   std::to_string(i / kColumns % kRows) + ", column " +
                                   std::to_string(i % kColumns)
                             : "buffer, word " + std::to_string(i - kTileWords));
    }
  }
}

TEST(RandomPrograms, OfFewOperationsDoWhatTheirOperationsDoInOrder) {
  if (!device_is_open()) return;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    check(1000 + seed, 5 + 10 * seed);
    if (HasFatalFailure()) return;
  }
}

TEST(RandomPrograms, OfFiveThousandOperationsDoWhatTheirOperationsDoInOrder) {
  if (!device_is_open()) return;
  const char* wanted = std::getenv("NEURON_TEST_BUILDER_PROGRAMS");
  const uint32_t programs =
      wanted == nullptr ? 4 : static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10));
  for (uint32_t seed = 1; seed <= programs; ++seed) {
    check(seed, kOperations);
    if (HasFatalFailure()) return;
  }
}

TEST(RandomPrograms, GiveTheSameBytesWhenTheyAreBuiltAgain) {
  const RandomProgram random = random_program(7, 1000);
  const auto bytes = [&] {
    builder::Program program("random");
    write(random, program);
    return program.build();
  };
  const auto once = bytes(), again = bytes();
  ASSERT_TRUE(once) << once.error().sentence;
  ASSERT_TRUE(again);
  EXPECT_EQ(*once, *again);
}

}  // namespace
}  // namespace neuron::property
