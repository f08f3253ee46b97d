// SPDX-License-Identifier: Apache-2.0
// Shares and rates between two snapshots.
#include <gtest/gtest.h>

#include "tests/unit/tools/neuron-top/snapshots.h"

namespace neuron::top {
namespace {

telemetry::CoreCounters& counters(Snapshot& host, unsigned core = 0) {
  return host.processes[0].cores[core].counters;
}

TEST(TopActivity, HasNoSharesInTheFirstSnapshotButItsErrors) {
  Snapshot now = busy_host(10);
  counters(now).busy_us = 1'000'000;
  counters(now).timed_out = 3;
  const Interval interval = compare(nullptr, now);
  EXPECT_EQ(interval.seconds, 0);
  EXPECT_EQ(interval.activities.at({100, 0, 0}).busy, 0);
  EXPECT_EQ(interval.activities.at({100, 0, 0}).errors, 3u);
}

TEST(TopActivity, DividesWhatGrewByTheTimeBetween) {
  Snapshot before = busy_host(10), now = busy_host(12);
  counters(before).busy_us = 5'000'000;
  counters(now).busy_us = 6'000'000;
  counters(now).engine_busy_us[2] = 500'000;
  counters(now).multiply_accumulates = 1'000'000;
  counters(now).dma_bytes = 4096;
  counters(now).executions = 8;
  before.processes[0].user_us = 1'000'000;
  now.processes[0].user_us = 4'000'000;
  const Interval interval = compare(&before, now);
  const Activity& activity = interval.activities.at({100, 0, 0});
  EXPECT_DOUBLE_EQ(activity.busy, 0.5);
  EXPECT_DOUBLE_EQ(activity.engines[2], 0.25);
  EXPECT_DOUBLE_EQ(activity.flops, 1e6);
  EXPECT_DOUBLE_EQ(activity.dma_bytes, 2048);
  EXPECT_DOUBLE_EQ(activity.executions, 4);
  EXPECT_DOUBLE_EQ(interval.process_times.at(100).first, 1.5);
}

TEST(TopActivity, CountsFromZeroWhereACounterWentBack) {
  Snapshot before = busy_host(10), now = busy_host(11);
  counters(before).busy_us = 900'000'000;
  counters(before).executions = 1000;
  counters(now).busy_us = 250'000;
  counters(now).executions = 7;
  const Activity activity = compare(&before, now).activities.at({100, 0, 0});
  EXPECT_DOUBLE_EQ(activity.busy, 0.25);
  EXPECT_DOUBLE_EQ(activity.executions, 7);
}

TEST(TopActivity, CountsANewProcessFromItsStart) {
  Snapshot before = host_at(10), now = busy_host(11);
  counters(now).executions = 7;
  EXPECT_DOUBLE_EQ(compare(&before, now).activities.at({100, 0, 0}).executions, 7);
}

TEST(TopActivity, ShowsNoRatesOfADeviceThatDidNotAnswerBefore) {
  Snapshot before = host_at(10), now = busy_host(11);
  before.devices[0].error = "it does not answer";
  counters(now).executions = 1'000'000;
  counters(now).busy_us = 900'000'000;
  const Activity activity = compare(&before, now).activities.at({100, 0, 0});
  EXPECT_EQ(activity.executions, 0);
  EXPECT_EQ(activity.busy, 0);
  Snapshot nothing;
  nothing.monotonic = before.monotonic;
  nothing.error = "no daemon answers";
  EXPECT_EQ(compare(&nothing, now).activities.at({100, 0, 0}).executions, 0);
}

TEST(TopActivity, NeverHasSharesBeyondOne) {
  Snapshot before = busy_host(10), now = busy_host(10.5);
  counters(now).busy_us = ~0ull;
  now.host.all.user = ~0ull;
  now.host.all.idle = 2;  // the sum wraps
  const Interval interval = compare(&before, now);
  EXPECT_EQ(interval.activities.at({100, 0, 0}).busy, 1);
  EXPECT_LE(interval.system_user, 1);
}

TEST(TopActivity, TakesTimesThatGoBackOrLieEndsApartForNoInterval) {
  Snapshot before = busy_host(10), now = busy_host(9);
  EXPECT_EQ(compare(&before, now).seconds, 0);
  using Time = std::chrono::steady_clock::time_point;
  before.monotonic = Time::max();
  now.monotonic = Time::min();
  EXPECT_EQ(compare(&before, now).seconds, 0);
  EXPECT_GT(compare(&now, before).seconds, 1e10);
}

TEST(TopActivity, IsTheMeanOfThePhysicalCoresOfALogicalOne) {
  Snapshot before = host_at(10, 1, 8, 2), now = host_at(11, 1, 8, 2);
  telemetry::Process& process = add_process(now, 100);
  add_core(process, 0, 2).counters.busy_us = 210'100;
  add_core(process, 0, 3).counters.busy_us = 630'100;
  process.cores[1].counters.executions = 4;
  const Interval interval = compare(&before, now);
  const View view = view_of(now, {}, interval);
  EXPECT_EQ(view.core_version, "v2d");
  ASSERT_EQ(view.devices[0].cores.size(), 4u);
  const CoreCell& cell = view.devices[0].cores[1];
  EXPECT_TRUE(cell.used);
  EXPECT_NEAR(cell.activity.busy, 0.4201, 1e-9);
  EXPECT_DOUBLE_EQ(cell.activity.executions, 4);  // rates add up
  EXPECT_EQ(cell.logical_core, 1u);
  EXPECT_FALSE(view.devices[0].cores[0].used);
  EXPECT_NEAR(view.total.busy, 0.4201 / 4, 1e-9);
  EXPECT_NEAR(average_utilization(now, interval), view.total.busy, 1e-9);
}

}  // namespace
}  // namespace neuron::top
