// SPDX-License-Identifier: Apache-2.0
// The public headers against the tables of facts, row by row, as C11 and as C++17.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "conformance_row.h"

extern "C" const struct conformance_unit* const conformance_units[];

namespace {

// What the units say about one table in one language.
struct Verdicts {
  std::vector<std::string> wrong;
  std::map<std::string, int> reasons;
  std::multiset<int> lines;
  int checked = 0;
};

bool holds(const conformance_row& row) {
  return row.verdict != nullptr ? row.verdict() != 0 : row.holds != 0;
}

Verdicts evaluate(const conformance_unit* const* units, const std::string& table,
                  const std::string& language) {
  Verdicts verdicts;
  for (; *units != nullptr; ++units) {
    const conformance_unit& unit = **units;
    if (unit.language != language) continue;
    for (size_t i = 0; i < unit.count; ++i) {
      const conformance_row& row = unit.rows[i];
      if (row.table != table) continue;
      verdicts.lines.insert(row.line);
      if (row.reason != nullptr) {
        ++verdicts.reasons[row.reason];
        continue;
      }
      ++verdicts.checked;
      if (!holds(row)) {
        verdicts.wrong.push_back(table + ".tsv:" + std::to_string(row.line) + ": " + row.name +
                                 " in " + unit.header + " as " + language + " is not " +
                                 row.expected);
      }
    }
  }
  return verdicts;
}

// Lines of a table that hold a row: all but the title.
std::multiset<int> lines_of(const std::string& table) {
  std::ifstream file(std::string(NEURON_SOURCE_DIR) + "/tests/conformance/tables/" + table +
                     ".tsv");
  std::multiset<int> lines;
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    if (line > 1 && !text.empty()) lines.insert(line);
  }
  return lines;
}

class Table : public testing::TestWithParam<const char*> {};

TEST_P(Table, HoldsInEveryRowInBothLanguages) {
  const std::multiset<int> expected = lines_of(GetParam());
  ASSERT_FALSE(expected.empty()) << "no table " << GetParam();
  for (const char* language : {"c", "cpp"}) {
    const Verdicts verdicts = evaluate(conformance_units, GetParam(), language);
    for (const std::string& sentence : verdicts.wrong) ADD_FAILURE() << sentence;
    EXPECT_EQ(verdicts.lines, expected) << "rows without an entry, or with two";
    int excused = 0;
    for (const auto& [reason, count] : verdicts.reasons) excused += count;
    std::printf("%s as %s: %zu rows, %d checked, %d not checkable\n", GetParam(), language,
                expected.size(), verdicts.checked, excused);
    for (const auto& [reason, count] : verdicts.reasons) {
      std::printf("  %d: %s\n", count, reason.c_str());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Table,
                         testing::Values("libnrt/functions", "libnrt/functions_async_3",
                                         "libnrt/enums", "libnrt/macros", "libnrt/structs",
                                         "driver/structs", "driver/ioctls"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name.replace(name.find('/'), 1, "_");
                           return name;
                         });

TEST(Conformance, ReportsARowThatDoesNotHold) {
  const conformance_row rows[] = {{"t", 2, "holds", "1", 1, nullptr, nullptr},
                                  {"t", 3, "fails", "2", 0, nullptr, nullptr},
                                  {"t", 4, "fails when run", "3", 1, nullptr, [] { return 0; }},
                                  {"t", 5, "excused", "", 0, "because", nullptr}};
  const conformance_unit unit = {"header.h", "c", rows, 4};
  const conformance_unit* const units[] = {&unit, nullptr};
  const Verdicts verdicts = evaluate(units, "t", "c");
  ASSERT_EQ(verdicts.wrong.size(), 2u);
  EXPECT_EQ(verdicts.wrong[0], "t.tsv:3: fails in header.h as c is not 2");
  EXPECT_EQ(verdicts.checked, 3);
  EXPECT_EQ(verdicts.reasons.at("because"), 1);
}

}  // namespace
