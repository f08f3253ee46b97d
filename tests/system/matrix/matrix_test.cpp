// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "tests/system/matrix/cell.h"
#include "tests/system/matrix/grid.h"

namespace neuron::matrix {
namespace {

bool whole_matrix() {
  const char* wanted = std::getenv("NEURON_TEST_MATRIX");
  return wanted != nullptr && std::strcmp(wanted, "all") == 0;
}

std::vector<std::string> words(const std::string& name) {
  std::vector<std::string> result;
  std::istringstream stream(name);
  for (std::string word; std::getline(stream, word, '/');) result.push_back(word);
  return result;
}

std::string executor_name(Executor executor) {
  Cell cell;
  cell.executor = executor;
  return words(cell.name()).back();
}

class Matrix : public testing::TestWithParam<Executor> {};

TEST_P(Matrix, HasEveryExpectedCellAndEachIsRightOrRefusedWithASentence) {
  const auto expected = expected_cells(whole_matrix());
  std::map<uint32_t, std::vector<Cell>> by_ranks;
  for (const Cell& cell : all_cells()) {
    if (cell.executor == GetParam() && (whole_matrix() || belongs_to_short_run(cell.name()))) {
      by_ranks[cell.ranks].push_back(cell);
    }
  }
  std::map<std::string, Verdict> found;
  for (const auto& [ranks, cells] : by_ranks) found.merge(run_cells(cells));
  const std::string executor = executor_name(GetParam());
  size_t complaints = 0;
  const auto complain = [&](const std::string& name, const std::string& what) {
    if (++complaints <= 40) ADD_FAILURE() << name << ": " << what;
  };
  for (const auto& [name, expectation] : expected) {
    if (words(name).back() != executor) continue;
    const auto at = found.find(name);
    if (at == found.end() || at->second.kind == Verdict::Kind::kNotRun) {
      complain(name, "the cell is missing");
    } else if (at->second.kind == Verdict::Kind::kWrong) {
      complain(name, at->second.sentence);
    } else if (expectation.kind == Expectation::kResult &&
               at->second.kind != Verdict::Kind::kResult) {
      complain(name, "a result is expected, found: " + at->second.sentence);
    } else if (expectation.kind == Expectation::kNothing &&
               at->second.kind != Verdict::Kind::kNothing) {
      complain(name, "nothing is to be done, found a result, or: " + at->second.sentence);
    } else if (expectation.kind == Expectation::kRefusal &&
               at->second.kind != Verdict::Kind::kRefusal) {
      complain(name, "a refusal is expected, found a result");
    } else if (at->second.sentence.find(expectation.part) == std::string::npos) {
      complain(name, "the refusal does not say \"" + expectation.part +
                         "\", but: " + at->second.sentence);
    }
  }
  for (const auto& [name, verdict] : found) {
    if (expected.count(name) == 0) complain(name, "the table of expected cells does not have it");
  }
  EXPECT_EQ(complaints, 0u);
  std::map<Verdict::Kind, size_t> kinds;
  for (const auto& [name, verdict] : found) ++kinds[verdict.kind];
  printf("%s: %zu cells: %zu results, %zu refusals, %zu without anything to do\n", executor.c_str(),
         found.size(), kinds[Verdict::Kind::kResult], kinds[Verdict::Kind::kRefusal],
         kinds[Verdict::Kind::kNothing]);
}

INSTANTIATE_TEST_SUITE_P(On, Matrix,
                         testing::Values(Executor::kHost, Executor::kTcp, Executor::kRough,
                                         Executor::kDevice, Executor::kDeviceSbuf,
                                         Executor::kSimulatedNode, Executor::kSimulatedNodes),
                         [](const auto& info) { return executor_name(info.param); });

TEST(ShortRun, HasEveryPairOfValuesOfTwoProperties) {
  std::vector<std::set<std::string>> values(6);
  for (const auto& [name, expectation] : expected_cells(true)) {
    const auto own = words(name);
    for (size_t i = 0; i < values.size(); ++i) values[i].insert(own[i]);
  }
  std::set<std::string> covered;
  for (const auto& [name, expectation] : expected_cells(false)) {
    const auto own = words(name);
    for (size_t a = 0; a < own.size(); ++a) {
      for (size_t b = a + 1; b < own.size(); ++b) covered.insert(own[a] + " with " + own[b]);
    }
  }
  for (size_t a = 0; a < values.size(); ++a) {
    for (size_t b = a + 1; b < values.size(); ++b) {
      for (const std::string& one : values[a]) {
        for (const std::string& other : values[b]) {
          EXPECT_TRUE(covered.count(one + " with " + other) != 0)
              << one << " with " << other << " is in no cell of the short run";
        }
      }
    }
  }
}

TEST(ShortRun, HasEveryOperationWithEveryAlgorithmThatCanDoIt) {
  std::set<std::string> wanted, covered;
  const auto name_of = [](const std::string& name) {
    const auto values = words(name);
    return values[0] + " by " + values[4];
  };
  for (const auto& [name, expectation] : expected_cells(true)) {
    if (expectation.kind == Expectation::kResult) wanted.insert(name_of(name));
  }
  for (const auto& [name, expectation] : expected_cells(false)) {
    if (expectation.kind == Expectation::kResult) covered.insert(name_of(name));
  }
  EXPECT_EQ(wanted, covered);
}

}  // namespace
}  // namespace neuron::matrix
