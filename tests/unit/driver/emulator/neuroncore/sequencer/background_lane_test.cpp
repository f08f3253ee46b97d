// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/background_lane.h"

#include <gtest/gtest.h>

#include "hw/isa.h"

namespace neuron::core {
namespace {

WrittenRange bank(unsigned number) {
  return {NEURON_SPACE_PSUM, 0, 127, number * size_t{2048}, (number + 1) * size_t{2048}};
}

TEST(BackgroundLane, TakesATransposeThatWouldWaitForTheArray) {
  BackgroundLane lane;
  const auto product = lane.place(false, 0, 0, bank(0));
  EXPECT_EQ(product.begin, 0U);
  EXPECT_FALSE(product.background);
  lane.occupy(product, 500, bank(0));
  const auto transpose = lane.place(true, 10, 500, bank(1));
  EXPECT_EQ(transpose.begin, 10U);
  EXPECT_TRUE(transpose.background);
  lane.occupy(transpose, 110, bank(1));
  EXPECT_EQ(lane.place(true, 20, 500, bank(2)).begin, 110U) << "there is one lane";
  EXPECT_EQ(lane.place(false, 20, 500, bank(2)).begin, 500U) << "products need the array";
}

TEST(BackgroundLane, LeavesATransposeToAnArrayThatIsFreeFirst) {
  BackgroundLane lane;
  EXPECT_FALSE(lane.place(true, 7, 7, bank(0)).background);
  lane.occupy({0, true}, 900, bank(0));
  const auto place = lane.place(true, 10, 400, bank(1));
  EXPECT_EQ(place.begin, 400U);
  EXPECT_FALSE(place.background);
}

TEST(BackgroundLane, OrdersWhatIsWrittenToTheSameBytes) {
  BackgroundLane lane;
  lane.occupy({0, false}, 500, bank(0));
  EXPECT_EQ(lane.place(true, 10, 500, bank(0)).begin, 500U);
  lane.occupy({100, true}, 800, bank(3));
  EXPECT_EQ(lane.place(false, 510, 510, bank(3)).begin, 800U);
  EXPECT_EQ(lane.place(false, 510, 510, bank(4)).begin, 510U);
}

TEST(BackgroundLane, RemembersAllTilesThatTheArrayWorksOn) {
  BackgroundLane lane;
  lane.occupy({0, false}, 500, bank(0));
  lane.occupy({10, false}, 400, bank(5));
  EXPECT_EQ(lane.place(true, 20, 600, bank(0)).begin, 500U);
  EXPECT_EQ(lane.place(true, 20, 600, bank(5)).begin, 500U) << "as one rectangle";
  lane.occupy({500, false}, 700, bank(6));
  EXPECT_EQ(lane.place(true, 510, 700, bank(0)).begin, 510U) << "earlier ones are done";
}

TEST(BackgroundLane, BeginsAgainWithModelTime) {
  BackgroundLane lane;
  lane.occupy({0, true}, 900, bank(0));
  lane.restart();
  EXPECT_EQ(lane.place(false, 0, 0, bank(0)).begin, 0U);
}

}  // namespace
}  // namespace neuron::core
