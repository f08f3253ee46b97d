// SPDX-License-Identifier: Apache-2.0
// Random programs of 5,000 operations on emulated cores of each generation, in strict mode: what
// they leave in all tiles and buffers is what the same operations leave that are done one after the
// other. The seeds take turns at the generations.
// NEURON_TEST_BUILDER_PROGRAMS=200 makes so many programs; the seeds are 1, 2, ...
#include "tests/property/builder/random_program.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>

#include "tests/support/setting.h"
#include "tools/execution/session.h"

namespace neuron::property {
namespace {

constexpr uint32_t kOperations = 5000;

constexpr uint8_t kGenerations[] = {2, 3, 4};
uint8_t generation_of(uint32_t seed) { return kGenerations[seed % std::size(kGenerations)]; }

// A device of one generation for this process.
class Device {
 public:
  explicit Device(uint8_t generation)
      : emulator_("NEURON_EMULATOR", generation == 2   ? "trn1.2xlarge"
                                     : generation == 3 ? "trn2.3xlarge"
                                                       : "trn3pd98.3xlarge"),
        cores_("NEURON_LOGICAL_NC_CONFIG", generation > 2 ? "1" : nullptr),
        session_(execution::Session::open(1)) {
    if (!session_) ADD_FAILURE() << session_.error().sentence;
  }
  bool is_open() const { return session_.has_value(); }

 private:
  test::Setting emulator_, cores_;
  decltype(execution::Session::open(1)) session_;
};

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

void check_on_open_device(uint32_t seed, uint32_t operations, uint32_t functions) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const RandomProgram random = random_program(seed, operations, functions);
  builder::Program program("random", generation_of(seed));
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

struct Sizes {
  uint32_t seed, operations, functions = kFunctions;
};

// Generation by generation, each with a device of its own.
void check(const std::vector<Sizes>& programs) {
  for (const uint8_t generation : kGenerations) {
    SCOPED_TRACE("generation " + std::to_string(generation));
    const Device device(generation);
    if (!device.is_open()) return;
    for (const Sizes& sizes : programs) {
      if (generation_of(sizes.seed) != generation) continue;
      check_on_open_device(sizes.seed, sizes.operations, sizes.functions);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

uint32_t wanted_programs(uint32_t usual) {
  const char* wanted = std::getenv("NEURON_TEST_BUILDER_PROGRAMS");
  return wanted == nullptr ? usual : static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10));
}

TEST(RandomPrograms, OfFewOperationsDoWhatTheirOperationsDoInOrder) {
  std::vector<Sizes> programs;
  for (uint32_t seed = 1; seed <= 40; ++seed) programs.push_back({1000 + seed, 5 + 10 * seed});
  check(programs);
}

TEST(RandomPrograms, OfFiveThousandOperationsDoWhatTheirOperationsDoInOrder) {
  std::vector<Sizes> programs;
  for (uint32_t seed = 1; seed <= wanted_programs(3); ++seed) {
    programs.push_back({seed, kOperations});
  }
  check(programs);
}

// More than a core has queues, so that functions share some.
TEST(RandomPrograms, OfManyFunctionsDoWhatTheirOperationsDoInOrder) {
  std::vector<Sizes> programs;
  for (uint32_t seed = 1; seed <= wanted_programs(12); ++seed) {
    programs.push_back({2000 + seed, 400 + 50 * (seed % 12), 15 + 3 * (seed % 13)});
  }
  check(programs);
}

void count(const std::vector<Statement>& list, std::map<Statement::Kind, uint32_t>& kinds) {
  for (const Statement& s : list) {
    ++kinds[s.kind];
    count(s.body, kinds);
    count(s.otherwise, kinds);
  }
}

TEST(RandomPrograms, HaveManyStatementsOfEachKind) {
  const RandomProgram random = random_program(1, kOperations);
  std::map<Statement::Kind, uint32_t> kinds;
  count(random.main, kinds);
  for (auto kind = Statement::Kind::kFill; kind <= Statement::Kind::kOnce;
       kind = static_cast<Statement::Kind>(static_cast<uint8_t>(kind) + 1)) {
    EXPECT_GE(kinds[kind], 5U) << "kind " << static_cast<unsigned>(kind);
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
