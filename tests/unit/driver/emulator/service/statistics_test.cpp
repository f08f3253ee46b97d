// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/statistics.h"

#include <gtest/gtest.h>

namespace neuron::service {
namespace {

TEST(Statistics, AResetThatFailsCountsForTheCoresThatWereToBeReset) {
  Statistics statistics;
  statistics.count_reset(0b0110, 4, true);
  statistics.count_reset(0b0010, 4, false);
  for (const unsigned core : {0u, 3u}) {
    EXPECT_EQ(statistics.reset_requests[core].total, 0u);
    EXPECT_EQ(statistics.reset_failures[core].total, 0u);
  }
  EXPECT_EQ(statistics.reset_requests[1].total, 2u);
  EXPECT_EQ(statistics.reset_failures[1].total, 1u);
  EXPECT_EQ(statistics.reset_failures[2].total, 1u);
}

}  // namespace
}  // namespace neuron::service
