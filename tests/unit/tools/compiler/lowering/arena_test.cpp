// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::lowering {
namespace {

using builder::Program;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint8_t kTrn1 = 2;
constexpr uint32_t kColumns = 256;

TEST(Arena, LendsWhatIsAboveTheLimitAndNothingBelow) {
  Program program("arena", kTrn1);
  Arena arena(program, kColumns);
  EXPECT_EQ(arena.lend(16), nullptr);
  arena.limit(192);
  const auto lent = arena.lend(64);
  ASSERT_NE(lent, nullptr);
  EXPECT_EQ(arena.lend(16), nullptr);
  const auto kept = arena.take(192);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(lent->base, kept->base + 192 * 4);
}

TEST(Arena, TakesRoomAboveTheLimitWhereItIsNotLent) {
  Program program("arena", kTrn1);
  Arena arena(program, kColumns);
  arena.limit(64);
  const auto small = arena.take(64);
  EXPECT_NE(arena.take(128), nullptr);
  const auto lent = arena.lend(192);
  ASSERT_NE(lent, nullptr);
  EXPECT_EQ(arena.take(16), nullptr);
}

TEST(Arena, GivesTilesOfARowOneDistanceAndTheirRoomBackWithTheLast) {
  Program program("arena", kTrn1);
  Arena arena(program, kColumns);
  auto row = arena.take_row(20, 4);
  ASSERT_THAT(row, SizeIs(4));
  for (size_t i = 1; i < row.size(); ++i) {
    EXPECT_EQ(row[i]->base - row[i - 1]->base, 32U * 4);
    EXPECT_EQ(row[i]->columns, 20U);
  }
  EXPECT_THAT(arena.take_row(20, 5), IsEmpty());
  row.resize(1);
  EXPECT_EQ(arena.take(kColumns), nullptr);
  row.clear();
  EXPECT_NE(arena.take(kColumns), nullptr);
}

}  // namespace
}  // namespace neuron::lowering
