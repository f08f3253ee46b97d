// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/time_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::profile {
namespace {

std::vector<uint64_t> values(const TimeGrid& grid) {
  std::vector<uint64_t> list;
  for (size_t point = 0; point < grid.points(); ++point) list.push_back(grid.value(point));
  return list;
}

TEST(TimeGrid, HasAPointEachNanosecondOfAShortExecutionAndFewOfALongOne) {
  const TimeGrid brief(3500);
  EXPECT_EQ(brief.width(), 1000u);
  EXPECT_GE(brief.time(brief.points() - 1), 3500u);
  for (const uint64_t total : {uint64_t{1} << 40, uint64_t{1} << 60}) {
    const TimeGrid grid(total);
    EXPECT_LE(grid.points(), TimeGrid::kMostPoints + 1);
    EXPECT_GE(grid.time(grid.points() - 1), total);
    EXPECT_EQ(grid.width() % 1000, 0u);
  }
}

TEST(TimeGrid, SpreadsAnAmountEvenlyAndLosesNothing) {
  TimeGrid grid(4000);
  grid.spread(500, 2500, 1000);
  EXPECT_THAT(values(grid), ::testing::ElementsAre(0, 250, 500, 250, 0, 0));
  grid.spread(3000, 3000, 7);
  grid.spread(900'000, 900'500, 11);  // behind the end
  EXPECT_THAT(values(grid), ::testing::ElementsAre(0, 250, 500, 250, 7, 11));
  TimeGrid odd(4000);
  odd.spread(1, 3999, 1'000'003);
  uint64_t sum = 0;
  for (const uint64_t value : values(odd)) sum += value;
  EXPECT_EQ(sum, 1'000'003u);
}

TEST(TimeGrid, LevelsAreThereFromTheirBeginningToJustBeforeTheirEnd) {
  TimeGrid grid(5000);
  grid.level(1000, 3000, 2);
  grid.level(1500, 2000, 1);
  grid.level(2000, 9000, 5);
  grid.level(3100, 3200, 100);  // between two points
  grid.finish_levels();
  EXPECT_THAT(values(grid), ::testing::ElementsAre(0, 2, 7, 5, 5, 5, 5));
}

TEST(TimeGrid, KnowsWhetherItWasGivenAnything) {
  TimeGrid grid(1000);
  EXPECT_FALSE(grid.any());
  grid.spread(0, 10, 0);
  EXPECT_FALSE(grid.any());
  grid.level(0, 10, 1);
  EXPECT_TRUE(grid.any());
}

}  // namespace
}  // namespace neuron::profile
