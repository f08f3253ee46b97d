// SPDX-License-Identifier: Apache-2.0
// The tables of tests/system/coverage and the tests that the sources hold: what the page
// coverage.md and the checks of its claims both read.
//
// Callers: tests, single-threaded. What is malformed is a failure of the test that asks.
#ifndef TESTS_UNIT_DRIVER_ISA_COVERAGE_TABLES_H
#define TESTS_UNIT_DRIVER_ISA_COVERAGE_TABLES_H

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "driver/isa/opcode_table.h"

namespace neuron::isa::testing {

using Generations = std::set<unsigned>;

// What executes instructions and looks only whether the engine comes to its end, or whether code
// paths agree with each other: no value tests.
inline constexpr const char* kWithoutValues[] = {"IsaSamples.", "LaterSamples.", "SimdPaths."};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::vector<std::string>> read_table(const std::string& name) {
  const std::string path = std::string(NEURON_SOURCE_DIR) + "/tests/system/coverage/" + name;
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> row;
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, '\t');) row.push_back(field);
    if (!row.empty()) rows.push_back(row);
  }
  return rows;
}

inline std::map<std::string, const OpcodeInfo*> opcodes_by_name() {
  std::map<std::string, const OpcodeInfo*> names;
  for (const OpcodeInfo& info : all_opcodes()) names[info.name] = &info;
  return names;
}

// A test of the sources, and the generations that its suite is instantiated for (none: it has no
// parameter of that kind).
struct SourceTest {
  std::filesystem::path path;
  Generations instantiated;
};

// By "Suite.Test".
class SourceTests {
 public:
  static const SourceTests& all() {
    static const SourceTests tests;
    return tests;
  }
  const SourceTest* find(const std::string& name) const {
    const auto found = tests_.find(name);
    return found == tests_.end() ? nullptr : &found->second;
  }

 private:
  SourceTests() {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(NEURON_SOURCE_DIR) + "/tests")) {
      if (entry.path().string().ends_with("_test.cpp")) read(entry.path());
    }
  }

  void read(const std::filesystem::path& path) {
    const std::string text = text_of(path);
    for (size_t at = text.find("\nTEST"); at != std::string::npos; at = text.find("\nTEST", at)) {
      ++at;
      (void)word(text, at);
      if (at >= text.size() || text[at] != '(') continue;
      const std::string suite = word(text, ++at);
      if (at >= text.size() || text[at] != ',') continue;
      const std::string test = word(text, ++at);
      tests_[suite + "." + test] = {path, instantiated(text, suite)};
    }
  }

  static std::string word(const std::string& text, size_t& at) {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
    const size_t from = at;
    while (at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_')) {
      ++at;
    }
    return text.substr(from, at - from);
  }

  // Of INSTANTIATE_TEST_SUITE_P(Generations, SUITE, VALUES): what VALUES say.
  static Generations instantiated(const std::string& text, const std::string& suite) {
    const std::string begin = "INSTANTIATE_TEST_SUITE_P(Generations, " + suite + ", ";
    const size_t at = text.find(begin);
    if (at == std::string::npos) return {};
    const std::string values = text.substr(at + begin.size(), 40);
    if (values.starts_with("kGenerations)")) return {2, 3, 4};
    if (!values.starts_with("::testing::Values(")) return {};
    Generations generations;
    for (const char letter : values.substr(0, values.find(')'))) {
      if (letter >= '2' && letter <= '4') generations.insert(static_cast<unsigned>(letter - '0'));
    }
    return generations;
  }

  std::map<std::string, SourceTest> tests_;
};

// By opcode: the tests that compare its values, each with the generations whose instructions it
// executes. tests.tsv names them in its third column; where that is missing, they are those that
// the suite is instantiated for, or else the first generation that has the opcode.
inline std::map<std::string, std::map<std::string, Generations>> listed_tests() {
  std::map<std::string, std::map<std::string, Generations>> listed;
  const auto names = opcodes_by_name();
  for (const auto& row : read_table("tests.tsv")) {
    if (row.size() < 2 || row.size() > 3) {
      ADD_FAILURE() << "tests.tsv: a row is an opcode, a test and generations: " << row[0];
      continue;
    }
    Generations& generations = listed[row[0]][row[1]];
    const SourceTest* test = SourceTests::all().find(row[1]);
    if (row.size() == 3) {
      std::istringstream numbers(row[2]);
      for (unsigned generation; numbers >> generation;) generations.insert(generation);
    } else if (test != nullptr && !test->instantiated.empty()) {
      generations = test->instantiated;
    } else if (names.contains(row[0])) {
      generations = {names.at(row[0])->generation};
    }
  }
  return listed;
}

}  // namespace neuron::isa::testing

#endif
