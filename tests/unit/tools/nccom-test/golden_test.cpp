// SPDX-License-Identifier: Apache-2.0
// All that nccom-test prints of a run, to the letter: tables, CSV, JSON, comparisons, heat maps.
#include "tests/unit/tools/golden.h"

#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/output/heat_map.h"
#include "tools/nccom-test/output/report.h"
#include "tools/nccom-test/output/table.h"

namespace neuron::nccom {
namespace {

using testing::expect_golden;

std::vector<Block> blocks() {
  std::vector<Block> list;
  for (int operation = 0; operation < CCOM_OPERATION_COUNT; ++operation) {
    Block& block = list.emplace_back();
    block.title = "part " + std::to_string(operation);
    block.operation = static_cast<ccom_operation_t>(operation);
    block.type = static_cast<ccom_type_t>(operation % CCOM_TYPE_COUNT);
    block.group_ranks = static_cast<uint32_t>(2 + operation);
    for (uint64_t size = 64; size <= 1 << 20; size *= 128) {
      Row& row = block.rows.emplace_back();
      row.size = size;
      row.count = size / 4;
      row.total_input = size * 2;
      row.total_output = size * 3;
      for (int i = 1; i <= 10; ++i) row.times_us.push_back(0.5 * i * operation + size / 1000.0);
      row.rank_mean_us = {1.5, 2.5 + operation};
      row.algorithm = algorithm_name(static_cast<ccom_algorithm_t>(operation % 4));
      row.checked = 2;
      row.compared = 50;
    }
    block.rows[1].failure = "rank 1: \"it\" failed";
    block.rows[1].log = "/tmp/nccom_test_log_abcdef.log";
  }
  return list;
}

TEST(NccomOutput, OfTablesIsAsBefore) {
  std::string text;
  TableOptions options;
  for (const Block& block : blocks()) text += format_table(block, options);
  options = {.statistics = {{"avg", -1}, {"min", -1}, {"max", -1}, {"p50", 50}, {"p99.9", 99.9}},
             .algorithm = true,
             .totals = true,
             .gibibytes = true};
  for (const Block& block : blocks()) text += format_table(block, options);
  expect_golden("nccom_table.txt", text + format_csv(blocks(), options));
}

TEST(NccomOutput, OfReportsAndComparisonsIsAsBefore) {
  const TableOptions options{.statistics = {{"avg", -1}, {"p99", 99}}};
  const std::string report = format_report(blocks(), options, {{"ranks", "2"}, {"a\"b", "c\n"}});
  expect_golden("nccom_report.json", report);
  const auto baseline = parse_baseline(report, "baseline");
  ASSERT_TRUE(baseline) << baseline.error().sentence;
  auto slower = blocks();
  for (double& time : slower[0].rows[0].times_us) time *= 1.5;
  const auto compared = compare(slower, *baseline, 0.1, false);
  ASSERT_TRUE(compared) << compared.error().sentence;
  EXPECT_EQ(compared->slower, 1u);
  expect_golden("nccom_comparison.txt", compared->text);
  EXPECT_EQ(failures(blocks()), blocks().size());
}

TEST(NccomOutput, OfHeatMapsIsAsBefore) {
  std::vector<std::vector<double>> times(5, std::vector<double>(5, 10));
  for (size_t i = 0; i < 5; ++i) times[i][i] = 0;
  times[1][3] = 45;
  times[4][0] = 21;
  const auto links = pair_links(times, 65536);
  std::vector<LinkLoad> loads;
  for (uint64_t i = 0; i < 7; ++i) {
    loads.push_back({"link " + std::to_string(i), 1000 * i * i, 0.1 * static_cast<double>(i)});
  }
  expect_golden("nccom_heat_map.txt",
                format_pairs(links, 5, 65536, false) + format_pairs(links, 5, 65536, true) +
                    pairs_json(links, 65536) + format_loads(loads, 3) + loads_json(loads));
}

TEST(Operation, HasTheFactsOfItsKind) {
  std::string text;
  for (int i = 0; i < CCOM_OPERATION_COUNT; ++i) {
    const auto operation = static_cast<ccom_operation_t>(i);
    text += std::string(operation_name(operation)) + " " +
            std::to_string(bus_factor(operation, 1)) + " " +
            std::to_string(bus_factor(operation, 8)) + (reduces(operation) ? " reduces" : "") +
            (has_root(operation) ? " root" : "") + (takes_pairs(operation) ? " pairs" : "") +
            (has_variable_counts(operation) ? " variable" : "") + "\n";
    EXPECT_EQ(*find_operation(operation_name(operation)), operation);
  }
  for (int i = 0; i < CCOM_TYPE_COUNT; ++i) {
    const auto type = static_cast<ccom_type_t>(i);
    text += std::string(type_name(type)) + " " + std::to_string(type_size(type)) +
            (is_floating(type) ? " floating" : "") + "\n";
    EXPECT_EQ(*find_type(type_name(type)), type);
  }
  expect_golden("nccom_operations.txt", text);
}

}  // namespace
}  // namespace neuron::nccom
