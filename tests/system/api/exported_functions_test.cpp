// SPDX-License-Identifier: Apache-2.0
//
// Every function that libnrt.so.1 exports has a row in tests/mutation/exported.tsv, which names the
// test that fails if the function does nothing; tests/mutation/exported proves the rows. The page
// exported-functions.md in the build folder is written from it.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/files.h"

namespace {

struct Row {
  std::string program, test;
};

// The list that tests/mutation/exported proves: by function, without the version of its symbol.
std::map<std::string, Row> listed() {
  std::istringstream list(
      neuron::test::read_file(neuron::test::source("tests/mutation/exported.tsv")));
  std::map<std::string, Row> rows;
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    std::string library, function;
    Row row;
    std::getline(cells, library, '\t');
    std::getline(cells, function, '\t');
    std::getline(cells, row.program, '\t');
    std::getline(cells, row.test, '\t');
    if (library == "libnrt.so.1") rows[function.substr(0, function.find('@'))] = row;
  }
  return rows;
}

std::set<std::string> exported() {
  const std::string map = neuron::test::read_file(neuron::test::source("runtime/libnrt.map"));
  std::set<std::string> names;
  static const std::regex name("\\b((nrta?|ndl|nds|nec)_[a-z0-9_]+);");
  for (std::sregex_iterator it(map.begin(), map.end(), name), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

std::set<std::string> tests_of_this_program() {
  std::set<std::string> names;
  const auto& program = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const auto& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      names.insert(std::string(suite.name()) + "." + suite.GetTestInfo(t)->name());
    }
  }
  return names;
}

TEST(ExportedFunctions, EachHasATestThatFailsIfItDoesNothing) {
  const std::set<std::string> functions = exported();
  ASSERT_GT(functions.size(), 200u) << "runtime/libnrt.map could not be read";
  const std::set<std::string> own = tests_of_this_program();
  const std::map<std::string, Row> rows = listed();
  std::ofstream page(std::string(NEURON_BUILD_DIR) + "/exported-functions.md");
  page << "# Exported functions of libnrt.so.1\n\n"
       << "| function | test that fails if it does nothing | program |\n|---|---|---|\n";
  for (const std::string& function : functions) {
    const auto row = rows.find(function);
    if (row == rows.end()) {
      ADD_FAILURE() << function
                    << " is exported, but tests/mutation/exported.tsv has no row for it";
      continue;
    }
    const auto& [program, test] = row->second;
    if (program == "api") {
      EXPECT_TRUE(own.count(test)) << function << ": there is no test " << test;
    }
    page << "| " << function << " | " << test << " | " << program << " |\n";
  }
  for (const auto& [function, row] : rows) {
    EXPECT_TRUE(functions.count(function)) << function << " has a row but is not exported";
  }
}

}  // namespace
