// SPDX-License-Identifier: Apache-2.0
// Differences, shares and rates of counters.
#include "tools/telemetry/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::telemetry {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Growth, CountsFromZeroWhereACounterWentBack) {
  EXPECT_EQ(growth(5, 7), 2u);
  EXPECT_EQ(growth(7, 7), 0u);
  EXPECT_EQ(growth(7, 5), 5u);
  EXPECT_EQ(growth(0, ~0ull), ~0ull);
}

TEST(Growth, OfACoreHasEveryCounterForItself) {
  CoreCounters before, now;
  before.completed = 1;
  now.completed = 11;
  before.timed_out = 9;
  now.timed_out = 2;
  before.busy_us = 100;
  now.busy_us = 350;
  now.link_bytes = 64;
  before.engine_busy_us = {1, 2, 3, 4, 5};
  now.engine_busy_us = {11, 2, 3, 4, 0};
  before.device_latency[40] = 3;
  now.device_latency[40] = 4;
  now.total_latency[127] = 5;
  before.causes = {{"oob_error", 2}, {"hw_dma_abort_error", 1}};
  now.causes = {{"oob_error", 2}, {"hw_dma_abort_error", 4}, {"failure", 1}};
  const CoreCounters grown = growth(before, now);
  EXPECT_EQ(grown.completed, 10u);
  EXPECT_EQ(grown.timed_out, 2u);
  EXPECT_EQ(grown.busy_us, 250u);
  EXPECT_EQ(grown.link_bytes, 64u);
  EXPECT_EQ(grown.hardware, 0u);
  EXPECT_THAT(grown.engine_busy_us, ElementsAre(10, 0, 0, 0, 0));
  EXPECT_EQ(grown.device_latency[40], 1u);
  EXPECT_EQ(grown.total_latency[127], 5u);
  const std::map<std::string, uint64_t> causes = {{"hw_dma_abort_error", 3}, {"failure", 1}};
  EXPECT_EQ(grown.causes, causes);
  EXPECT_THAT(growth(now, now).causes, IsEmpty());
}

TEST(Growth, FromNothingIsEverything) {
  CoreCounters now;
  uint64_t value = 1;
  for (uint64_t CoreCounters::*counter : {&CoreCounters::completed,
                                          &CoreCounters::completed_with_err,
                                          &CoreCounters::completed_with_num_err,
                                          &CoreCounters::timed_out,
                                          &CoreCounters::incorrect_input,
                                          &CoreCounters::failed_to_queue,
                                          &CoreCounters::generic,
                                          &CoreCounters::numerical,
                                          &CoreCounters::transient,
                                          &CoreCounters::model,
                                          &CoreCounters::runtime,
                                          &CoreCounters::hardware,
                                          &CoreCounters::busy_us,
                                          &CoreCounters::collectives_us,
                                          &CoreCounters::multiply_accumulates,
                                          &CoreCounters::executions,
                                          &CoreCounters::model_loads,
                                          &CoreCounters::dma_bytes,
                                          &CoreCounters::link_bytes,
                                          &CoreCounters::device_latency_us,
                                          &CoreCounters::total_latency_us}) {
    now.*counter = value++;
  }
  const CoreCounters grown = growth(CoreCounters{}, now);
  EXPECT_EQ(grown.completed, 1u);
  EXPECT_EQ(grown.executions, 16u);
  EXPECT_EQ(grown.total_latency_us, 21u);
  EXPECT_EQ(failures(grown), 2u + 3 + 4 + 5 + 6);
}

TEST(Rates, DivideWhatGrewByTheTime) {
  CoreCounters grown;
  grown.busy_us = 1'000'000;
  grown.collectives_us = 3'000'000;
  grown.engine_busy_us[2] = 500'000;
  grown.multiply_accumulates = 1'000'000;
  grown.dma_bytes = 4096;
  grown.link_bytes = 2;
  grown.executions = 8;
  const CoreRates of = rates(grown, 2);
  EXPECT_DOUBLE_EQ(of.busy, 0.5);
  EXPECT_DOUBLE_EQ(of.collectives, 1);  // never beyond
  EXPECT_DOUBLE_EQ(of.engines[2], 0.25);
  EXPECT_DOUBLE_EQ(of.flops, 1e6);
  EXPECT_DOUBLE_EQ(of.dma_bytes, 2048);
  EXPECT_DOUBLE_EQ(of.link_bytes, 1);
  EXPECT_DOUBLE_EQ(of.executions, 4);
}

TEST(Rates, AreNothingInNoTime) {
  CoreCounters grown;
  grown.busy_us = grown.multiply_accumulates = grown.executions = 1000;
  for (const double seconds : {0.0, -1.0}) {
    const CoreRates of = rates(grown, seconds);
    EXPECT_EQ(of.busy, 0);
    EXPECT_EQ(of.flops, 0);
    EXPECT_EQ(of.executions, 0);
  }
}

TEST(SecondsBetween, AreNoneWhenTimesGoBackOrLieEndsApart) {
  using Time = std::chrono::steady_clock::time_point;
  Snapshot before, now;
  before.monotonic = Time(std::chrono::milliseconds(1500));
  now.monotonic = Time(std::chrono::seconds(4));
  EXPECT_DOUBLE_EQ(seconds_between(before, now), 2.5);
  EXPECT_EQ(seconds_between(now, before), 0);
  before.monotonic = Time::max();
  now.monotonic = Time::min();
  EXPECT_EQ(seconds_between(before, now), 0);
  EXPECT_GT(seconds_between(now, before), 1e10);
}

TEST(ProcessorShares, AddUpToOneAndDoNotRunBackwards) {
  const ProcessorTimes before{100, 0, 50, 1000, 30, 0, 0}, now{200, 0, 100, 1850, 20, 0, 0};
  EXPECT_THAT(processor_shares(before, now), ElementsAre(0.1, 0, 0.05, 0.85, 0, 0, 0));
  EXPECT_THAT(processor_shares(now, now), Each(0.0));
}

}  // namespace
}  // namespace neuron::telemetry
