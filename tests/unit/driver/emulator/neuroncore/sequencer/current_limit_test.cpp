// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/current_limit.h"

#include <gtest/gtest.h>

namespace neuron::core {
namespace {

using Time = CurrentLimit::ModelTime;
constexpr Time kLimitWindow = 3'000'000, kInterval = 200'000;
constexpr unsigned kAllRows = NEURON_PARTITIONS;

// The time of `count` multiplications, each of which begins `gap` behind the end of the one before.
Time run(CurrentLimit& limit, Time& now, unsigned count, Time gap = 0, unsigned rows = kAllRows) {
  Time total = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Time taken = limit.stretch(now, kInterval, rows);
    total += taken;
    now += taken + gap;
  }
  return total;
}

TEST(CurrentLimit, HalvesTheRateOfTheFirstThreeMicroseconds) {
  CurrentLimit limit(3);
  Time now = 10'000'000;
  EXPECT_EQ(run(limit, now, 8), 8 * 2 * kInterval);  // 3.2 us
  EXPECT_EQ(run(limit, now, 100), 100 * kInterval);
}

TEST(CurrentLimit, IsBackAfterAPause) {
  CurrentLimit limit(3);
  Time now = 0;
  run(limit, now, 50);
  now += kLimitWindow;
  EXPECT_EQ(run(limit, now, 8), 8 * 2 * kInterval);
  EXPECT_EQ(run(limit, now, 1), kInterval);
}

TEST(CurrentLimit, StaysWhileTheArrayIsUsedForLessThanHalfOfTheTime) {
  CurrentLimit limit(3);
  Time now = 0;
  EXPECT_EQ(run(limit, now, 100, kInterval), 100 * 2 * kInterval);
}

TEST(CurrentLimit, StaysWhileMostRowsGetNoData) {
  CurrentLimit limit(3);
  Time now = 0;
  EXPECT_EQ(run(limit, now, 100, 0, kAllRows / 4), 100 * 2 * kInterval);
}

TEST(CurrentLimit, DoesNotExistBeforeGeneration3) {
  CurrentLimit limit(2);
  EXPECT_EQ(limit.stretch(0, kInterval, kAllRows), kInterval);
}

TEST(CurrentLimit, BeginsAgainWithModelTime) {
  CurrentLimit limit(3);
  Time now = 0;
  run(limit, now, 50);
  limit.restart();
  EXPECT_EQ(limit.stretch(0, kInterval, kAllRows), 2 * kInterval);
}

}  // namespace
}  // namespace neuron::core
