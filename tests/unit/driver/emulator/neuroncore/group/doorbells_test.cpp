// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/doorbells.h"

#include <gtest/gtest.h>

namespace neuron::core {
namespace {

TEST(Doorbells, GiveEachDescriptorToTheOldestDoorbellThatHasSomeLeft) {
  Doorbells<int> doorbells;
  doorbells.ring(3, 1);
  doorbells.ring(5, 2);  // two more
  ASSERT_NE(doorbells.oldest(), nullptr);
  EXPECT_EQ(*doorbells.oldest(), 1);
  doorbells.transferred(3);
  EXPECT_EQ(*doorbells.oldest(), 2);
  doorbells.ring(6, 3);  // 2 of the second are left, so 4 are new
  doorbells.transferred(2);
  EXPECT_EQ(*doorbells.oldest(), 3);
  doorbells.transferred(4);
  EXPECT_EQ(doorbells.oldest(), nullptr);
}

TEST(Doorbells, ARingOfTheOtherHalfOfAQueueOwnsNothing) {
  Doorbells<int> doorbells;
  doorbells.ring(2, 1);
  doorbells.ring(2, 2);
  doorbells.transferred(2);
  EXPECT_EQ(doorbells.oldest(), nullptr);
}

TEST(Doorbells, DescriptorsThatWereRungForBeforeTracingBeganHaveNoOwner) {
  Doorbells<int> doorbells;
  doorbells.transferred(7);
  EXPECT_EQ(doorbells.oldest(), nullptr);
  doorbells.ring(1, 1);
  ASSERT_NE(doorbells.oldest(), nullptr);
  EXPECT_EQ(*doorbells.oldest(), 1);
}

}  // namespace
}  // namespace neuron::core
