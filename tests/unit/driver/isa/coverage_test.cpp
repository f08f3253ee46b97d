// SPDX-License-Identifier: Apache-2.0
//
// Every instruction with the types that the checks accept and the test that executes it. The page
// coverage.md in the build folder is written from the opcode table, the checks and
// tests/system/coverage.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "driver/isa/explain.h"
#include "driver/isa/opcode_table.h"
#include "tests/unit/driver/isa/type_probe.h"
#include "tests/unit/driver/isa/value_checks.h"

namespace neuron::isa {
namespace {

const std::string kFolder = std::string(NEURON_SOURCE_DIR) + "/tests/system/coverage/";

std::vector<std::vector<std::string>> read_table(const std::string& name) {
  std::ifstream file(kFolder + name);
  EXPECT_TRUE(file) << kFolder + name;
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> row;
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, '\t');) row.push_back(field);
    if (!row.empty()) rows.push_back(row);
  }
  return rows;
}

std::string word(const std::string& text, size_t& at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
  const size_t from = at;
  while (at < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_')) {
    ++at;
  }
  return text.substr(from, at - from);
}

// "Suite.Test" of every test in the sources, with the text of its file.
const std::map<std::string, std::filesystem::path>& tests_in_sources() {
  static const auto found = [] {
    std::map<std::string, std::filesystem::path> tests;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(NEURON_SOURCE_DIR) + "/tests")) {
      if (!entry.path().string().ends_with("_test.cpp")) continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (size_t at = text.find("\nTEST"); at != std::string::npos; at = text.find("\nTEST", at)) {
        ++at;
        (void)word(text, at);
        if (at >= text.size() || text[at] != '(') continue;
        const std::string suite = word(text, ++at);
        if (at >= text.size() || text[at] != ',') continue;
        const std::string test = word(text, ++at);
        tests[suite + "." + test] = entry.path();
      }
    }
    return tests;
  }();
  return found;
}

std::map<std::string, const OpcodeInfo*> opcodes_by_name() {
  std::map<std::string, const OpcodeInfo*> names;
  for (const OpcodeInfo& info : all_opcodes()) names[info.name] = &info;
  return names;
}

// A suite that is instantiated for kGenerations executes what it tests on all three.
bool is_of_every_generation(const std::string& test) {
  const auto found = tests_in_sources().find(test);
  if (found == tests_in_sources().end()) return false;
  std::ifstream file(found->second);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find("INSTANTIATE_TEST_SUITE_P(Generations, " + test.substr(0, test.find('.')) +
                   ", kGenerations)") != std::string::npos;
}

using Generations = std::set<unsigned>;

// By opcode: its tests, each with the generations whose instructions it executes. tests.tsv names
// them in its third column; where that is missing, they are those of the suite, or else the first
// generation that has the opcode.
std::map<std::string, std::map<std::string, Generations>> listed_tests() {
  std::map<std::string, std::map<std::string, Generations>> listed;
  const auto names = opcodes_by_name();
  for (const auto& row : read_table("tests.tsv")) {
    if (row.size() < 2 || row.size() > 3) {
      ADD_FAILURE() << "tests.tsv: a row is an opcode, a test and generations: " << row[0];
      continue;
    }
    Generations& generations = listed[row[0]][row[1]];
    if (row.size() == 3) {
      std::istringstream numbers(row[2]);
      for (unsigned generation; numbers >> generation;) generations.insert(generation);
    } else if (is_of_every_generation(row[1])) {
      generations = {2, 3, 4};
    } else if (names.contains(row[0])) {
      generations = {names.at(row[0])->generation};
    }
  }
  return listed;
}

// Why an instruction has no test; with a third column, why it has none in these generations.
std::map<std::string, std::string> reasons(unsigned generation = 0) {
  std::map<std::string, std::string> listed;
  for (const auto& row : read_table("reasons.tsv")) {
    const std::string generations = row.size() > 2 ? row[2] : "";
    const bool holds = generation == 0
                           ? generations.empty()
                           : generations.find(std::to_string(generation)) != std::string::npos;
    if (holds) listed[row[0]] = row.size() > 1 ? row[1] : "";
  }
  return listed;
}

std::string engines_of(const OpcodeInfo& info) {
  return explain(testing::make(info.opcode, 0), 0).engines;
}

constexpr unsigned kLast = 4;  // generation

// Whether TypeValues compares the values of every type in the generation.
bool is_compared(const OpcodeInfo& info, unsigned generation) {
  for (const auto& sample : testing::samples_of(generation)) {
    if (sample.instruction.opcode == info.opcode) {
      return testing::why_not_compared(sample) == nullptr;
    }
  }
  return false;
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
      EXPECT_FALSE(generations.empty()) << opcode << " names " << test << " for no generation";
      EXPECT_TRUE(tests_in_sources().contains(test)) << opcode << " names a missing test " << test;
    }
  }
  for (const auto& [opcode, reason] : reasons()) {
    EXPECT_TRUE(names.contains(opcode)) << opcode << " is no instruction";
    EXPECT_FALSE(reason.empty()) << opcode;
    EXPECT_FALSE(listed_tests().contains(opcode)) << opcode << " has a test and a reason for none";
  }
}

TEST(Coverage, EveryAvailableInstructionHasATestOrAReason) {
  const auto tests = listed_tests();
  const auto why = reasons();
  for (const OpcodeInfo& info : all_opcodes()) {
    const bool has = tests.contains(info.name) || why.contains(info.name);
    EXPECT_EQ(has, info.available) << info.name;
    EXPECT_TRUE(info.available || info.generation > 2) << info.name;
  }
}

TEST(Coverage, EveryInstructionHasATestInEachGenerationThatExecutesIt) {
  const auto tests = listed_tests();
  const auto why = reasons();
  for (const OpcodeInfo& info : all_opcodes()) {
    if (!info.available || why.contains(info.name)) continue;
    for (unsigned generation = info.generation; generation <= kLast; ++generation) {
      bool found = is_compared(info, generation) || reasons(generation).contains(info.name);
      for (const auto& [test, generations] : tests.at(info.name)) {
        found |= generations.contains(generation) && !test.starts_with("LaterSamples.");
      }
      EXPECT_TRUE(found) << info.name << " of generation " << generation;
    }
  }
}

TEST(Coverage, EveryDocumentedInstructionHasAnOpcodeOrAReason) {
  const auto names = opcodes_by_name();
  std::set<std::string> used;
  for (const auto& row : read_table("documented.tsv")) {
    ASSERT_GE(row.size(), 2U) << row[0];
    if (row[1] == "-") {
      EXPECT_TRUE(row.size() > 2 && !row[2].empty()) << row[0] << " needs a reason";
      continue;
    }
    std::istringstream opcodes(row[1]);
    for (std::string opcode; opcodes >> opcode;) {
      EXPECT_TRUE(names.contains(opcode) && names.at(opcode)->available)
          << row[0] << ": " << opcode;
      used.insert(opcode);
    }
  }
  // What computes or moves data is there because a document asks for it.
  for (const OpcodeInfo& info : all_opcodes()) {
    const bool asked = used.contains(info.name) || !info.available || info.opcode >> 8 < 2;
    EXPECT_TRUE(asked) << info.name;
  }
}

// The cells of an instruction: the places that take each type, and which of them are compared.
std::string cells(const testing::Sample& sample, unsigned& legal, unsigned& compared) {
  bool typed = false;
  for (unsigned p = 0; p < testing::kPlaces; ++p) {
    typed |= testing::has_place(sample.instruction, p);
  }
  std::string text;
  unsigned of_this = 0;
  for (const uint8_t type : testing::types_of(kLast)) {
    std::string letters = places(sample, type);
    of_this += !letters.empty();
    if (testing::why_not_compared(sample) == nullptr) {
      std::ranges::transform(letters, letters.begin(),
                             [](char letter) { return std::toupper(letter); });
      compared += !letters.empty();
    }
    text += ' ' + (!typed ? "" : letters.empty() ? "." : letters) + " |";
  }
  EXPECT_EQ(of_this != 0, typed) << disassemble(sample.instruction);
  legal += of_this;
  return text;
}

std::string tests_of(const std::map<std::string, Generations>& tests, unsigned generation) {
  std::string text;
  for (const auto& [name, generations] : tests) {
    if (generations.contains(generation)) text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

TEST(Coverage, WritesThePage) {
  const auto tests = listed_tests();
  const auto why = reasons();
  std::ofstream page(std::string(NEURON_BUILD_DIR) + "/coverage.md");
  page << "# Instructions, generations and types\n\n"
          "Found by trying one form of each instruction against the checks of each generation. "
          "Letters: the type is legal in d destination,\na first source, b second source, f source "
          "and t destination of a DMA; a dot: illegal everywhere. A capital: TypeValues executes\n"
          "the instruction of this generation with this type in this place and compares the values "
          "with fp32, rounded once. Where letters are\nsmall, the last column says who compares "
          "values. It names tests that execute the instruction of this generation.\n\n"
          "| instruction | generation | engines |";
  for (const uint8_t type : testing::types_of(kLast)) page << ' ' << dtype_name(type) << " |";
  page << " test |\n|---|---|---|";
  for (size_t n = 0; n < testing::types_of(kLast).size(); ++n) page << "---|";
  page << "---|\n";
  unsigned legal = 0, compared = 0;
  for (const OpcodeInfo& info : all_opcodes()) {
    if (!info.available) continue;
    for (unsigned generation = info.generation; generation <= kLast; ++generation) {
      page << "| " << info.name << " | " << generation << " | " << engines_of(info) << " |";
      for (const auto& sample : testing::samples_of(generation)) {
        if (sample.instruction.opcode != info.opcode) continue;
        page << cells(sample, legal, compared);
        const auto listed = tests.find(info.name);
        std::string text = listed == tests.end() ? "none: " + why.at(info.name)
                                                 : tests_of(listed->second, generation);
        const char* reason = testing::why_not_compared(sample);
        const auto none = reasons(generation);
        if (none.contains(info.name)) text = "none: " + none.at(info.name);
        if (text.empty()) text = "TypeValues";
        if (listed != tests.end() && reason != nullptr) text += std::string("; ") + reason;
        page << ' ' << text << " |\n";
      }
    }
  }
  page << "\n# Documented instructions\n\n| documented | instruction | note |\n|---|---|---|\n";
  for (const auto& row : read_table("documented.tsv")) {
    page << "| " << row[0] << " | " << row[1] << " | " << (row.size() > 2 ? row[2] : "") << " |\n";
  }
  page << "\n# Defined, not executed\n\n| instruction | first generation | why |\n|---|---|---|\n";
  for (const OpcodeInfo& info : all_opcodes()) {
    if (info.available) continue;
    page << "| " << info.name << " | " << int{info.generation} << " | "
         << "no public source says what it does |\n";
  }
  EXPECT_GT(legal, 1200U);
  EXPECT_GT(compared, 900U);
  EXPECT_TRUE(page.flush());
}

}  // namespace
}  // namespace neuron::isa
