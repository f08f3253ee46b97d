// SPDX-License-Identifier: Apache-2.0
// A snapshot as a record, and what is computed between two of them.
#include "tests/unit/tools/golden.h"

#include "tests/unit/tools/rich_host.h"
#include "tools/telemetry/generation.h"
#include "tools/telemetry/rates.h"
#include "tools/telemetry/record.h"

namespace neuron::telemetry {
namespace {

using neuron::testing::expect_golden;
using neuron::testing::rich_host;

TEST(Record, OfAFullSnapshotIsAsBeforeAndReadsBackAsItself) {
  const std::string line = to_record(rich_host(3));
  expect_golden("telemetry_record.json", line + "\n");
  Snapshot read;
  std::string error;
  ASSERT_TRUE(from_record(line, read, error)) << error;
  EXPECT_EQ(to_record(read), line);
}

TEST(Record, ThatLacksSomethingIsRefusedOrKeepsItsDefault) {
  const std::string line = to_record(rich_host(3));
  // Each cut is no record; none of them may do harm.
  for (size_t length = 0; length < line.size(); length += 97) {
    Snapshot read;
    std::string error;
    EXPECT_FALSE(from_record(line.substr(0, length), read, error));
    EXPECT_NE(error, "");
  }
}

TEST(Rates, OfEveryCounterAreWhatGrewEachSecond) {
  const Snapshot before = rich_host(0), now = rich_host(4);
  EXPECT_DOUBLE_EQ(seconds_between(before, now), 4);
  EXPECT_DOUBLE_EQ(seconds_between(now, before), 0);
  const CoreCounters grown =
      growth(before.processes[0].cores[0].counters, now.processes[0].cores[0].counters);
  EXPECT_EQ(grown.completed, 400u);
  EXPECT_EQ(grown.completed_with_err, 8u);
  EXPECT_EQ(grown.completed_with_num_err, 4u);
  EXPECT_EQ(grown.timed_out, 4u);
  EXPECT_EQ(grown.incorrect_input, 0u);
  EXPECT_EQ(grown.numerical, 4u);
  EXPECT_EQ(grown.hardware, 8u);
  EXPECT_EQ(grown.causes.at("hw_dma_abort_error"), 4u);
  EXPECT_EQ(grown.executions, 416u);
  EXPECT_EQ(grown.device_latency[27], 240u);
  EXPECT_EQ(grown.device_latency[20], 0u);
  EXPECT_EQ(grown.total_latency_us, 29'200u);
  EXPECT_EQ(failures(grown), 16u);
  const CoreRates each = rates(grown, 4);
  EXPECT_DOUBLE_EQ(each.busy, 0.437);
  EXPECT_DOUBLE_EQ(each.collectives, 0.051);
  EXPECT_DOUBLE_EQ(each.engines[0], 0.05);
  EXPECT_DOUBLE_EQ(each.engines[4], 0.294);
  EXPECT_DOUBLE_EQ(each.flops, 2 * 7'654'321'000.0);
  EXPECT_DOUBLE_EQ(each.executions, 104);
  EXPECT_DOUBLE_EQ(each.dma_bytes, 12'345'678);
  EXPECT_DOUBLE_EQ(each.link_bytes, 2'345'678);
  const ProcessorShares shares = processor_shares(before.host.all, now.host.all);
  EXPECT_DOUBLE_EQ(shares[0], 2.0 / 16);
  EXPECT_DOUBLE_EQ(shares[2], 0.9 / 16);
  EXPECT_DOUBLE_EQ(shares[3], 13.0 / 16);
  EXPECT_DOUBLE_EQ(shares[4], 0.1 / 16);
}

TEST(Rates, OfACounterThatBeganAnewAreWhatItHas) {
  EXPECT_EQ(growth(5, 9), 4u);
  EXPECT_EQ(growth(9, 9), 0u);
  EXPECT_EQ(growth(9, 5), 5u);
  const HardwareCounters grown = growth(HardwareCounters{1, 2, 3, 4, 5}, {11, 2, 5, 4, 4});
  EXPECT_EQ(grown.mem_ecc_corrected, 10u);
  EXPECT_EQ(grown.mem_ecc_uncorrected, 0u);
  EXPECT_EQ(grown.mem_ecc_repairable_uncorrected, 2u);
  EXPECT_EQ(grown.sram_ecc_corrected, 0u);
  EXPECT_EQ(grown.sram_ecc_uncorrected, 4u);
  EXPECT_DOUBLE_EQ(share(1, 4), 0.25);
  EXPECT_DOUBLE_EQ(share(5, 4), 1);
  EXPECT_DOUBLE_EQ(share(1, 0), 0);
}

TEST(Generation, IsARowOfTheTable) {
  EXPECT_STREQ(generation_of(2).device_name, "Trainium1");
  EXPECT_EQ(generation_of(2).hbm_stacks, 2);
  EXPECT_EQ(generation_of(2).logical_size, 1u);
  EXPECT_FALSE(generation_of(2).tells_repairable);
  EXPECT_STREQ(generation_of(3).link_kind, "NeuronLink-v3");
  EXPECT_EQ(generation_of(3).hbm_stacks, 4);
  EXPECT_TRUE(generation_of(3).tells_repairable);
  EXPECT_EQ(generation_of(0).number, 2u);   // no chip has it
  EXPECT_EQ(generation_of(99).number, 4u);  // newer than the table
  EXPECT_STREQ(generation_of(1).device_name, "Inferentia");
  EXPECT_EQ(generation_of_cores("NCv1").number, 1u);
  EXPECT_EQ(generation_of_cores("NCv3").number, 3u);
  EXPECT_EQ(generation_of_cores("").number, 2u);
}

}  // namespace
}  // namespace neuron::telemetry
