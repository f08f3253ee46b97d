// SPDX-License-Identifier: Apache-2.0
// ONNX's own test cases against the table of expected verdicts: all on the reference interpreter,
// every fifth or fifteenth on an emulated device of trn1 or trn2, with maps joined and without.
// With NEURON_TEST_ONNX_CASES=all, as `make nightly`, all of them there, too.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/support/files.h"
#include "tests/support/setting.h"
#include "tests/system/onnx/node_case.h"
#include "tools/execution/session.h"

namespace neuron::onnx_cases {
namespace {

using Table = std::map<std::string, std::string>;

Table expected() {
  Table table;
  for (const auto& [name, verdict] : read_table(test::source("tests/system/onnx/expected.tsv"))) {
    table[name] = verdict;
  }
  return table;
}

// Every verdict is that of the table; a change either way is one. Of every so many cases at least.
void expect_verdicts(const Way& way, size_t every) {
  const char* wanted = std::getenv("NEURON_TEST_ONNX_CASES");
  if (wanted != nullptr && std::string(wanted) == "all") every = 1;
  const std::vector<Case> cases = all_cases();
  ASSERT_FALSE(cases.empty()) << "install the package libonnx-testdata";
  const Table table = expected();
  for (size_t i = 0; i < cases.size(); i += every) {
    const auto row = table.find(cases[i].name);
    ASSERT_NE(row, table.end()) << cases[i].name << " is not in expected.tsv";
    const Outcome outcome = run_case(cases[i].folder, way);
    EXPECT_EQ(outcome.verdict, row->second) << cases[i].name << ": " << outcome.detail;
  }
}

TEST(OnnxCases, TheTableHasEveryCaseAndNoOther) {
  const std::vector<Case> cases = all_cases();
  const Table table = expected();
  EXPECT_EQ(cases.size(), table.size());
  for (const Case& one : cases) EXPECT_EQ(table.count(one.name), 1u) << one.name;
}

TEST(OnnxCases, AllGiveTheirVerdictOnTheReferenceInterpreter) { expect_verdicts({}, 1); }

// The setting stands before the session, which reads it.
struct Device {
  explicit Device(const char* type) : emulator("NEURON_EMULATOR", type) {
    auto opened = execution::Session::open(1);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().sentence);
    if (opened) session = std::move(*opened);
  }
  test::Setting emulator;
  std::unique_ptr<execution::Session> session;
};

TEST(OnnxCases, EveryFifthGivesItsVerdictOnTrn1) {
  const Device device("trn1.2xlarge");
  ASSERT_TRUE(device.session);
  expect_verdicts({.device = true, .lowering = {}}, 5);
}

TEST(OnnxCases, EveryFifteenthGivesItsVerdictOnTrn1WithoutJoinedMaps) {
  const Device device("trn1.2xlarge");
  ASSERT_TRUE(device.session);
  expect_verdicts({.device = true, .lowering = {.level = 0}}, 15);
}

TEST(OnnxCases, EveryFifteenthGivesItsVerdictOnTrn2) {
  const test::Setting single("NEURON_LOGICAL_NC_CONFIG", "1");
  const Device device("trn2.48xlarge");
  ASSERT_TRUE(device.session);
  expect_verdicts({.device = true, .lowering = {.generation = 3}}, 15);
}

TEST(OnnxCases, EveryFifteenthGivesItsVerdictOnTrn2WithoutJoinedMaps) {
  const test::Setting single("NEURON_LOGICAL_NC_CONFIG", "1");
  const Device device("trn2.48xlarge");
  ASSERT_TRUE(device.session);
  expect_verdicts({.device = true, .lowering = {.generation = 3, .level = 0}}, 15);
}

}  // namespace
}  // namespace neuron::onnx_cases
