// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/known_numbers.h"

#include <gtest/gtest.h>

namespace neuron::builder {
namespace {

TEST(KnownNumbers, OfABranchAreThoseThatBothBodiesGive) {
  KnownNumbers numbers;
  numbers.give(1);
  numbers.begin();
  numbers.give(2);
  numbers.give(3);
  numbers.begin_otherwise();
  EXPECT_TRUE(numbers.use(1));
  EXPECT_FALSE(numbers.use(2)) << "that is of the other body";
  numbers.give(3);
  numbers.give(4);
  numbers.end_branch();
  EXPECT_TRUE(numbers.use(1));
  EXPECT_FALSE(numbers.use(2));
  EXPECT_TRUE(numbers.use(3));
  EXPECT_FALSE(numbers.use(4));
}

TEST(KnownNumbers, OfALoopThatMayHaveNoRoundAreForgotten) {
  KnownNumbers numbers;
  numbers.begin();
  numbers.give(1);
  EXPECT_TRUE(numbers.use(1));
  numbers.end_maybe();
  EXPECT_FALSE(numbers.use(1));
  numbers.begin();
  numbers.give(2);
  numbers.end_always();
  EXPECT_TRUE(numbers.use(2));
}

TEST(KnownNumbers, OfBodiesWithinBodiesBelongToTheInnermost) {
  KnownNumbers numbers;
  numbers.begin();
  numbers.give(1);
  numbers.begin();
  numbers.give(2);
  numbers.begin_otherwise();
  numbers.give(2);
  numbers.end_branch();
  EXPECT_TRUE(numbers.use(2));
  numbers.end_maybe();
  EXPECT_FALSE(numbers.use(1));
  EXPECT_FALSE(numbers.use(2));
  numbers.begin();
  numbers.give(5);
  numbers.end_always();
  EXPECT_TRUE(numbers.use(5));
}

TEST(KnownNumbers, AFunctionNeedsWhatItUsesAndGivesWhatItsBodyGives) {
  KnownNumbers numbers;
  numbers.begin_function(7);
  EXPECT_TRUE(numbers.use(1)) << "the caller must have given it";
  numbers.give(2);
  EXPECT_TRUE(numbers.use(2)) << "it has given that itself";
  numbers.end_function();
  EXPECT_FALSE(numbers.use(1));
  EXPECT_FALSE(numbers.use(2)) << "nobody has called it";
  EXPECT_EQ(numbers.call(7), 1u) << "the number that the caller has not";
  EXPECT_FALSE(numbers.use(2));
  numbers.give(1);
  EXPECT_EQ(numbers.call(7), std::nullopt);
  EXPECT_TRUE(numbers.use(2));
}

TEST(KnownNumbers, AFunctionThatCallsAnotherNeedsWhatThatNeeds) {
  KnownNumbers numbers;
  numbers.begin_function(1);
  EXPECT_TRUE(numbers.use(10));
  numbers.end_function();
  numbers.begin_function(2);
  EXPECT_EQ(numbers.call(1), std::nullopt);
  numbers.end_function();
  EXPECT_EQ(numbers.call(2), 10u);
  numbers.give(10);
  EXPECT_EQ(numbers.call(2), std::nullopt);
}

TEST(KnownNumbers, AFunctionDoesNotGiveWhatWasThereBefore) {
  KnownNumbers numbers;
  numbers.begin();
  numbers.give(1);
  numbers.begin_function(3);
  numbers.give(2);
  numbers.end_function();
  numbers.end_maybe();
  EXPECT_EQ(numbers.call(3), std::nullopt);
  EXPECT_FALSE(numbers.use(1));
  EXPECT_TRUE(numbers.use(2));
}

}  // namespace
}  // namespace neuron::builder
