// SPDX-License-Identifier: Apache-2.0
// Every instruction with the types that the checks accept and the tests that compare its values.
// The page coverage.md in the build folder is written from the opcode table, the checks and
// tests/system/coverage. What it claims of the tests of the NeuronCore is held against what they
// execute by coverage_claims_test.cpp there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <string>

#include "driver/isa/explain.h"
#include "driver/isa/opcode_table.h"
#include "tests/unit/driver/isa/coverage_tables.h"
#include "tests/unit/driver/isa/type_probe.h"
#include "tests/unit/driver/isa/value_checks.h"

namespace neuron::isa {
namespace {

using testing::Generations;
using testing::listed_tests;
using testing::opcodes_by_name;
using testing::read_table;
using testing::SourceTests;

constexpr unsigned kLast = 4;  // generation

// Why the device does not execute an opcode: reasons.tsv, with the file of the repository that says
// so and its words there.
struct Reason {
  std::string why, path, words;
};
std::map<std::string, Reason> reasons() {
  std::map<std::string, Reason> listed;
  for (const auto& row : read_table("reasons.tsv")) {
    if (row.size() != 4) {
      ADD_FAILURE() << "reasons.tsv: a row is an opcode, a reason, a file and its words: "
                    << row[0];
      continue;
    }
    listed[row[0]] = {row[1], row[2], row[3]};
  }
  return listed;
}

// "d a b": the places that take the type; empty if none does.
std::string places(const testing::Sample& sample, uint8_t type) {
  std::string letters;
  for (unsigned p = 0; p < testing::kPlaces; ++p) {
    if (!testing::forms(sample, p, type).empty()) letters += testing::kPlaceLetter[p];
  }
  return letters;
}

TEST(Coverage, EveryListedTestExistsAndNamesAnInstruction) {
  const auto names = opcodes_by_name();
  for (const auto& [opcode, tests] : listed_tests()) {
    EXPECT_TRUE(names.contains(opcode)) << opcode << " is no instruction";
    for (const auto& [test, generations] : tests) {
      const testing::SourceTest* found = SourceTests::all().find(test);
      ASSERT_NE(found, nullptr) << opcode << " names a missing test " << test;
      for (const char* prefix : testing::kWithoutValues) {
        EXPECT_FALSE(test.starts_with(prefix))
            << opcode << " names " << test << ", which looks at no value";
      }
      // There the claim is held against what the test executes.
      EXPECT_NE(found->path.string().find("/tests/unit/driver/emulator/neuroncore/"),
                std::string::npos)
          << opcode << " names " << test << ", which is no test of the NeuronCore";
      EXPECT_FALSE(generations.empty()) << opcode << " names " << test << " for no generation";
      for (const unsigned generation : generations) {
        EXPECT_TRUE(found->instantiated.empty() || found->instantiated.contains(generation))
            << test << " is not instantiated for generation " << generation;
        EXPECT_TRUE(!names.contains(opcode) || generation >= names.at(opcode)->generation)
            << opcode << " is not of generation " << generation;
      }
    }
  }
}

// A test that is named beside the types of an instruction is one that can be looked up.
TEST(Coverage, EveryTestThatComparesTypesExists) {
  for (const testing::Sample& sample : testing::samples_of_every_engine(kLast)) {
    const testing::ValueChecks checks = testing::value_checks(sample.instruction);
    EXPECT_EQ(checks.tests.empty(), !testing::has_typed_place(sample.instruction))
        << disassemble(sample.instruction);
    for (const std::string& test : checks.tests) {
      EXPECT_NE(SourceTests::all().find(test), nullptr)
          << opcode_name(sample.instruction.opcode) << " names a missing test " << test;
    }
    EXPECT_EQ(checks.why.find('.'), std::string::npos) << "tests are named apart: " << checks.why;
  }
}

TEST(Coverage, EveryAvailableInstructionHasTestsAndEveryOtherAReason) {
  const auto tests = listed_tests();
  const auto why = reasons();
  for (const OpcodeInfo& info : all_opcodes()) {
    EXPECT_EQ(tests.contains(info.name), info.available) << info.name;
    EXPECT_EQ(why.contains(info.name), !info.available) << info.name;
    EXPECT_TRUE(info.available || info.generation > 2) << info.name;
  }
}

TEST(Coverage, EveryReasonIsFoundInTheFileThatItNames) {
  const auto names = opcodes_by_name();
  for (const auto& [opcode, reason] : reasons()) {
    EXPECT_TRUE(names.contains(opcode)) << opcode << " is no instruction";
    EXPECT_FALSE(reason.why.empty()) << opcode;
    EXPECT_GE(reason.words.size(), 10U) << opcode << ": too few words to be found by";
    const std::string text = testing::text_of(std::string(NEURON_SOURCE_DIR) + "/" + reason.path);
    EXPECT_NE(text.find(reason.words), std::string::npos)
        << opcode << ": " << reason.path << " does not say \"" << reason.words << "\"";
    EXPECT_NE(reason.words.find(opcode), std::string::npos)
        << opcode << " is not in the words of " << reason.path;
  }
}

TEST(Coverage, EveryInstructionHasATestInEachGenerationThatExecutesIt) {
  const auto tests = listed_tests();
  for (const OpcodeInfo& info : all_opcodes()) {
    if (!info.available) continue;
    for (unsigned generation = info.generation; generation <= kLast; ++generation) {
      bool found = false;
      for (const testing::Sample& sample : testing::samples_of(generation)) {
        found |= sample.instruction.opcode == info.opcode &&
                 testing::value_checks(sample.instruction).by_type_values();
      }
      for (const auto& [test, generations] : tests.at(info.name)) {
        found |= generations.contains(generation);
      }
      EXPECT_TRUE(found) << info.name << " of generation " << generation;
    }
  }
}

TEST(Coverage, EveryDocumentedInstructionHasAnOpcode) {
  const auto names = opcodes_by_name();
  std::set<std::string> used;
  for (const auto& row : read_table("documented.tsv")) {
    ASSERT_GE(row.size(), 2U) << row[0];
    std::istringstream opcodes(row[1]);
    unsigned count = 0;
    for (std::string opcode; opcodes >> opcode; ++count) {
      EXPECT_TRUE(names.contains(opcode) && names.at(opcode)->available)
          << row[0] << ": " << opcode;
      used.insert(opcode);
    }
    EXPECT_GT(count, 0U) << row[0];
  }
  // What computes or moves data is there because a document asks for it.
  for (const OpcodeInfo& info : all_opcodes()) {
    const bool asked = used.contains(info.name) || !info.available || info.opcode >> 8 < 2;
    EXPECT_TRUE(asked) << info.name;
  }
}

struct Count {
  unsigned legal = 0, by_type_values = 0;
};

// The cells of an instruction: the places that take each type, and which of them TypeValues
// compares.
std::string cells(const testing::Sample& sample, Count& count) {
  const bool typed = testing::has_typed_place(sample.instruction);
  std::string text;
  unsigned of_this = 0;
  for (const uint8_t type : testing::types_of(kLast)) {
    std::string letters = places(sample, type);
    of_this += !letters.empty();
    if (testing::value_checks(sample.instruction).by_type_values()) {
      std::ranges::transform(letters, letters.begin(),
                             [](char letter) { return std::toupper(letter); });
      count.by_type_values += !letters.empty();
    }
    text += ' ' + (!typed ? "" : letters.empty() ? "." : letters) + " |";
  }
  EXPECT_EQ(of_this != 0, typed) << disassemble(sample.instruction) << " on "
                                 << engine_name(sample.engine);
  count.legal += of_this;
  return text;
}

std::string engines_of(const testing::Sample& sample) {
  if (testing::has_typed_place(sample.instruction)) return engine_name(sample.engine);
  return explain(sample.instruction, 0).engines;
}

// Names of tests: those of tests.tsv that execute the instruction of the generation, and those that
// compare its types.
std::string tests_of(const OpcodeInfo& info, const testing::Sample& sample) {
  std::set<std::string> names;
  const auto listed = listed_tests();
  for (const auto& [name, generations] : listed.at(info.name)) {
    if (generations.contains(sample.generation)) names.insert(name);
  }
  const testing::ValueChecks checks = testing::value_checks(sample.instruction);
  std::string text;
  const auto add = [&text](const std::string& name) {
    text += (text.empty() || text.ends_with(": ") ? "" : ", ") + name;
  };
  for (const std::string& name : names) add(name);
  if (checks.by_type_values() || checks.tests.empty()) {
    return text.empty() ? "TypeValues" : text;
  }
  text += (text.empty() ? "" : "; ") + std::string("types (") + checks.why + "): ";
  for (const std::string& name : checks.tests) add(name);
  return text;
}

TEST(Coverage, WritesThePage) {
  std::ofstream page(std::string(NEURON_BUILD_DIR) + "/coverage.md");
  page << "# Instructions, generations, engines and types\n\n"
          "Found by trying one form of each instruction against the checks of each generation and "
          "engine. Letters: the type is legal in d\ndestination, a first source, b second source, "
          "f source and t destination of a DMA; a dot: illegal everywhere. A capital: TypeValues\n"
          "executes the instruction of this generation on this engine with this type in this place "
          "and compares the values with fp32, rounded\nonce. A small letter: the tests behind "
          "\"types\" in the last column do. The other tests there compare values of the "
          "instruction of this\ngeneration, on an engine and with types of their own. An "
          "instruction without types has one row for all its engines, which share its code\n(a "
          "sequencer's). That tests execute what is said here is looked at where they run "
          "(coverage_claims_test.cpp).\n\n"
          "| instruction | generation | engine |";
  for (const uint8_t type : testing::types_of(kLast)) page << ' ' << dtype_name(type) << " |";
  page << " test |\n|---|---|---|";
  for (size_t n = 0; n < testing::types_of(kLast).size(); ++n) page << "---|";
  page << "---|\n";
  Count count;
  for (const OpcodeInfo& info : all_opcodes()) {
    if (!info.available) continue;
    for (unsigned generation = info.generation; generation <= kLast; ++generation) {
      unsigned rows = 0;
      for (const testing::Sample& sample : testing::samples_of_every_engine(generation)) {
        if (sample.instruction.opcode != info.opcode) continue;
        page << "| " << info.name << " | " << generation << " | " << engines_of(sample) << " |"
             << cells(sample, count) << ' ' << tests_of(info, sample) << " |\n";
        ++rows;
      }
      EXPECT_GT(rows, 0U) << info.name << " of generation " << generation;
    }
  }
  page << "\n# Documented instructions\n\n| documented | instruction | note |\n|---|---|---|\n";
  for (const auto& row : read_table("documented.tsv")) {
    page << "| " << row[0] << " | " << row[1] << " | " << (row.size() > 2 ? row[2] : "") << " |\n";
  }
  page
      << "\n# Defined, not executed\n\n| instruction | first generation | why | where that is said "
         "|\n|---|---|---|---|\n";
  const auto why = reasons();
  for (const OpcodeInfo& info : all_opcodes()) {
    const auto reason = why.find(info.name);
    if (info.available || reason == why.end()) continue;
    page << "| " << info.name << " | " << int{info.generation} << " | " << reason->second.why
         << " | " << reason->second.path << ": \"" << reason->second.words << "\" |\n";
  }
  EXPECT_GT(count.legal, 1800U);
  EXPECT_GT(count.by_type_values, 1400U);
  EXPECT_TRUE(page.flush());
}

}  // namespace
}  // namespace neuron::isa
