// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tools/nccom-test/output/heat_map.h"
#include "tools/nccom-test/output/report.h"
#include "tools/nccom-test/output/table.h"

namespace neuron::nccom {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Block block_of(std::vector<Row> rows) {
  Block block;
  block.operation = CCOM_ALL_REDUCE;
  block.type = CCOM_UINT8;
  block.group_ranks = 16;
  block.rows = std::move(rows);
  return block;
}

Row row_of(uint64_t size, std::vector<double> times) {
  Row row;
  row.size = row.count = size;
  row.times_us = std::move(times);
  return row;
}

TEST(Average, IsTheSameInWhicheverOrderRanksReport) {
  const double a = 0.1, b = 1e16, c = 0.3;
  EXPECT_EQ(average({a, b, c}), average({b, c, a}));
  EXPECT_EQ(average({a, b, c}), average({c, b, a}));
  EXPECT_EQ(average({}), 0);
}

TEST(Table, BandwidthsAreDecimalUnlessAskedOtherwise) {
  // 32 MiB in 894.24 us are 37.52 GB/s, or 34.95 GiB/s.
  const Block block = block_of({row_of(33554432, {894.24})});
  const std::string table = format_table(block, {});
  EXPECT_THAT(table, HasSubstr("algbw(GB/s)"));
  EXPECT_THAT(table, HasSubstr("894.24"));
  EXPECT_THAT(table, HasSubstr("37.52"));
  EXPECT_THAT(table, HasSubstr("70.35"));
  TableOptions options;
  options.gibibytes = true;
  EXPECT_THAT(format_table(block, options), HasSubstr("34.95"));
  EXPECT_THAT(format_table(block, options), HasSubstr("busbw(GiB/s)"));
}

TEST(Table, ColumnsAreRightAlignedWithFourSpacesBetween) {
  std::istringstream lines(format_table(block_of({row_of(8, {10}), row_of(1 << 20, {6.19})}), {}));
  std::string head, first, second, last;
  std::getline(lines, head);
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, last);
  EXPECT_EQ(head, "size(B)    count(elems)     type    time:avg(us)    algbw(GB/s)    busbw(GB/s)");
  EXPECT_EQ(head.size(), first.size());
  EXPECT_EQ(first.substr(0, 7), "      8");
  EXPECT_THAT(first, HasSubstr("10.0 "));
  EXPECT_THAT(second, HasSubstr("6.19 "));
  EXPECT_EQ(last.substr(0, 19), "Avg bus bandwidth:\t");
  EXPECT_EQ(last.substr(last.size() - 4), "GB/s");
}

TEST(Table, AFailedSizeSaysWhyAndIsNotCounted) {
  Row bad = row_of(64, {});
  bad.failure = "rank 3 did not come";
  const Block block = block_of({row_of(1000, {1}), bad});
  EXPECT_THAT(format_table(block, {}),
              HasSubstr("64    Failure running neuron-bench - rank 3 did not come\n"));
  EXPECT_DOUBLE_EQ(average_bus_rate(block), 1e9 * 1.875);
  EXPECT_EQ(failures({block}), 1u);
}

TEST(Table, OptionalColumnsStandWhereTheOriginalHasThem) {
  TableOptions options;
  options.statistics = {{"avg", -1}, {"p50", 50}, {"max", -1}};
  options.algorithm = options.totals = true;
  Row row = row_of(8, {1, 2, 6});
  row.algorithm = "mesh";
  const std::string table = format_table(block_of({row}), options);
  EXPECT_THAT(table, HasSubstr("size(B)    count(elems)    total_input_size(B)    "
                               "total_output_size(B)     type    time:avg(us)    time:p50(us)    "
                               "time:max(us)    algbw(GB/s)    busbw(GB/s)    algorithm\n"));
  EXPECT_THAT(table, HasSubstr("mesh\n"));
}

TEST(Percentile, LiesBetweenTheTwoNearestValues) {
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 100), 4);
  EXPECT_DOUBLE_EQ(percentile({}, 50), 0);
}

TEST(Report, KeysAreTheTitlesOfTheColumnsAndComeBackAsABaseline) {
  const Block block = block_of({row_of(1000000, {10})});
  const std::string json = format_report({block}, {}, {{"command", "a \"b\""}});
  EXPECT_THAT(json, HasSubstr("\"size(B)\": 1000000"));
  EXPECT_THAT(json, HasSubstr("\"busbw(GB/s)\": 187.5"));
  EXPECT_THAT(json, HasSubstr("\"time:avg(us)\": 10.0"));
  EXPECT_THAT(json, HasSubstr(R"("command": "a \"b\"")"));
  const auto baseline = parse_baseline(json, "b.json");
  ASSERT_TRUE(baseline) << baseline.error().sentence;
  ASSERT_EQ(baseline->size(), 1u);
  EXPECT_EQ((*baseline)[0].operation, "all_reduce");
  EXPECT_NEAR((*baseline)[0].bus_rate, 187.5e9, 1);
}

TEST(Report, ReadsOneOfTheOriginalWhichHasNoOperation) {
  const auto baseline = parse_baseline(
      R"json({"results":[{"size(B)":524288,"count(elems)":524288,"type":"uint8",
              "algbw(GB/s)":22.69,"busbw(GB/s)":42.5,"time:avg(us)":23.11}]})json",
      "b.json");
  ASSERT_TRUE(baseline) << baseline.error().sentence;
  const auto same = compare({block_of({row_of(524288, {23.11})})}, *baseline, 0.05, false);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->compared, 1u);
  EXPECT_EQ(same->slower, 0u);
}

TEST(Report, ABaselineThatIsBrokenNamesTheField) {
  const auto sentence = [](const char* text) {
    const auto rows = parse_baseline(text, "b.json");
    return rows ? std::string("accepted") : rows.error().sentence;
  };
  EXPECT_THAT(sentence("{}"), HasSubstr("\"results\""));
  EXPECT_THAT(sentence(R"({"results":[3]})"), HasSubstr("results[0]"));
  EXPECT_THAT(sentence(R"({"results":[{"type":"uint8"}]})"), HasSubstr("\"size(B)\""));
  EXPECT_THAT(sentence(R"json({"results":[{"size(B)":8}]})json"), HasSubstr("busbw"));
  EXPECT_THAT(sentence("{"), HasSubstr("b.json"));
}

TEST(Compare, SlowerThanTheToleranceFailsAndFasterDoesNot) {
  std::vector<BaselineRow> baseline(1);
  baseline[0].size = 1000000;
  baseline[0].bus_rate = 187.5e9;
  const auto slower = [&](double time) {
    return compare({block_of({row_of(1000000, {time})})}, baseline, 0.05, false)->slower;
  };
  EXPECT_EQ(slower(10), 0u);
  EXPECT_EQ(slower(10.4), 0u);
  EXPECT_EQ(slower(10.7), 1u);
  EXPECT_EQ(slower(5), 0u);
}

TEST(Compare, ABaselineOfSomethingElseIsAFailureOfItsOwn) {
  std::vector<BaselineRow> baseline(1);
  baseline[0].size = 77;
  EXPECT_FALSE(compare({block_of({row_of(1000000, {10})})}, baseline, 0.05, false));
}

TEST(Compare, SimulatedTimesStandBesideMeasuredOnesWithTheAlgorithmsWhereTheyDiffer) {
  Row near = row_of(1000, {11}), far = row_of(2000, {10}), alone = row_of(3000, {1});
  Row failed = row_of(4000, {});
  failed.failure = "too large";
  near.algorithm = "ring";
  far.algorithm = "mesh";
  std::vector<Block> measured = {block_of({row_of(1000, {10, 10}), row_of(2000, {20})})};
  measured[0].rows[0].algorithm = "ring";
  measured[0].rows[1].algorithm = "tree";
  // Through a report, as a run leaves it.
  const auto baseline = parse_baseline(
      format_report(measured, {.statistics = {{"avg", -1}}, .algorithm = true}, {}), "run.json");
  ASSERT_TRUE(baseline) << baseline.error().sentence;
  const auto simulated = {block_of({near, far, alone, failed})};
  const auto beside = put_beside(simulated, *baseline, std::nullopt);
  ASSERT_TRUE(beside) << beside.error().sentence;
  EXPECT_EQ(beside->text,
            "all_reduce uint8 1000 B: simulated 11.000 us, measured 10.000 us, +10.0 %\n"
            "all_reduce uint8 2000 B: simulated 10.000 us, measured 20.000 us, -50.0 %; simulated "
            "is mesh, measured tree\n"
            "all_reduce uint8 3000 B: not measured\n"
            "apart: median 30.0 %, worst 50.0 %, of 2 rows\n");
  EXPECT_EQ(beside->compared, 2u);
  EXPECT_EQ(beside->outside, 0u) << "without a tolerance nothing is judged";
  EXPECT_EQ(put_beside(simulated, *baseline, 0.11)->outside, 1u) << "faster is no better";
  EXPECT_EQ(put_beside(simulated, *baseline, 0.05)->outside, 2u);
  EXPECT_FALSE(put_beside({block_of({alone})}, *baseline, {})) << "nothing to stand beside";
}

TEST(Csv, QuotesWhatHoldsAComma) {
  Row bad = row_of(64, {});
  bad.failure = "rank 3, \"b\"";
  const std::string csv = format_csv({block_of({bad})}, {});
  EXPECT_THAT(csv, HasSubstr("operation,ranks,size(B)"));
  EXPECT_THAT(csv, HasSubstr("\"rank 3, \"\"b\"\"\""));
}

TEST(HeatMap, FindsTheOneBadLink) {
  std::vector<std::vector<double>> times(4, std::vector<double>(4, 10));
  times[2][1] = 100;
  const auto links = pair_links(times, 10000);
  ASSERT_EQ(links.size(), 12u);
  const std::string text = format_pairs(links, 4, 10000, false);
  EXPECT_THAT(text, HasSubstr("1 of 12 links"));
  EXPECT_THAT(text, HasSubstr("2 -> 1:"));
  EXPECT_THAT(pairs_json(links, 10000), HasSubstr("\"from\": 2, \"to\": 1, \"time(us)\": 100.000"));
  times[2][1] = 10;
  EXPECT_THAT(format_pairs(pair_links(times, 10000), 4, 10000, false), HasSubstr("No link"));
}

TEST(HeatMap, ShowsTheBusiestLinksFirst) {
  const std::string text = format_loads({{"a", 1, 0.1}, {"b", 2, 0.9}, {"c", 3, 0.5}}, 2);
  EXPECT_LT(text.find("  b"), text.find("  c"));
  EXPECT_THAT(text, Not(HasSubstr("  a ")));
}

}  // namespace
}  // namespace neuron::nccom
