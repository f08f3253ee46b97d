// SPDX-License-Identifier: Apache-2.0
// What the coverage page claims of the tests of this program, held against what they had executed:
// each listed test executes its opcode on the generations that the list gives it, and the tests
// that value_checks.h names execute every type in every place, on every engine and generation, that
// the checks accept. The page says no more than what passes here; that these tests also compare
// the values is theirs to show.
//
// It looks at the end of the run, at the tests that ran.
#include <set>
#include <string>

#include "tests/unit/driver/emulator/neuroncore/executed.h"
#include "tests/unit/driver/isa/coverage_tables.h"
#include "tests/unit/driver/isa/type_probe.h"
#include "tests/unit/driver/isa/value_checks.h"

namespace neuron::core {
namespace {

namespace samples = isa::testing;
constexpr unsigned kLast = 4;  // generation

class CoverageClaims : public ::testing::Environment {
 public:
  void TearDown() override {
    const auto* all = ::testing::UnitTest::GetInstance();
    // Tests that did not run, or have failed themselves, are asked for nothing.
    std::set<std::string> silent;
    for (int s = 0; s < all->total_test_suite_count(); ++s) {
      const ::testing::TestSuite* suite = all->GetTestSuite(s);
      for (int t = 0; t < suite->total_test_count(); ++t) {
        const ::testing::TestInfo& test = *suite->GetTestInfo(t);
        const std::string name = Executed::name_of(test);
        known_.insert(name);
        if (!test.should_run() || !test.result()->Passed()) silent.insert(name);
      }
    }
    for (const std::string& name : known_) {
      if (!silent.contains(name)) ran_.insert(name);
    }
    look_at_generations();
    look_at_types();
  }

 private:
  void look_at_generations() const {
    const auto names = samples::opcodes_by_name();
    for (const auto& [opcode, tests] : samples::listed_tests()) {
      if (!names.contains(opcode)) continue;  // which the test of the page tells
      for (const auto& [test, generations] : tests) {
        EXPECT_TRUE(known_.contains(test))
            << "tests.tsv names " << test << ", which is no test of this program";
        if (!ran_.contains(test)) continue;
        for (const unsigned generation : generations) {
          EXPECT_TRUE(executed(test, *names.at(opcode), generation))
              << "tests.tsv says that " << test << " executes " << opcode << " of generation "
              << generation << ", and it does not";
        }
      }
    }
  }
  static bool executed(const std::string& test, const isa::OpcodeInfo& info, unsigned generation) {
    for (unsigned engine = 0; engine <= NEURON_ENGINE_CC; ++engine) {
      if (Executed::all().has(test, {info.opcode, generation, engine, Executed::kNoPlace, 0})) {
        return true;
      }
    }
    return false;
  }

  void look_at_types() const {
    for (unsigned generation = 2; generation <= kLast; ++generation) {
      for (const samples::Sample& sample : samples::samples_of_every_engine(generation)) {
        const samples::ValueChecks checks = samples::value_checks(sample.instruction);
        bool all_ran = !checks.tests.empty();
        for (const std::string& test : checks.tests) all_ran &= ran_.contains(test);
        if (all_ran) look_at_types_of(sample, checks);
      }
    }
  }
  static void look_at_types_of(const samples::Sample& sample, const samples::ValueChecks& checks) {
    for (unsigned place = 0; place < samples::kPlaces; ++place) {
      for (const uint8_t type : samples::types_of(sample.generation)) {
        if (samples::forms(sample, place, type).empty()) continue;
        bool found = false;
        for (const std::string& test : checks.tests) {
          found |= Executed::all().has(
              test, {sample.instruction.opcode, sample.generation, sample.engine, place, type});
        }
        EXPECT_TRUE(found) << isa::opcode_name(sample.instruction.opcode) << " of generation "
                           << sample.generation << " on " << isa::engine_name(sample.engine)
                           << " takes " << isa::dtype_name(type) << " in place "
                           << samples::kPlaceLetter[place] << ", and none of the tests that "
                           << "value_checks.h names (" << checks.tests.front()
                           << ", ...) executes that";
      }
    }
  }

  std::set<std::string> known_, ran_;
};

[[maybe_unused]] const auto* const kClaims =
    ::testing::AddGlobalTestEnvironment(new CoverageClaims);  // which googletest deletes

}  // namespace
}  // namespace neuron::core
