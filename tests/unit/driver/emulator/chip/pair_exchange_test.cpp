// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/pair_exchange.h"

#include <gtest/gtest.h>

namespace neuron::chip {
namespace {

PairExchange::Tile tile(unsigned dtype) { return {dtype, 1, 1, {std::byte{1}}}; }

unsigned taken(PairExchange& exchange, unsigned core, unsigned semaphore) {
  const auto found = exchange.take(core, semaphore);
  return found ? found->dtype : 0;
}

TEST(PairExchange, GivesTilesOfASemaphoreInTheirOrderAndKeepsSemaphoresApart) {
  PairExchange exchange;
  EXPECT_TRUE(exchange.put(1, 8, tile(11)));
  EXPECT_TRUE(exchange.put(1, 9, tile(12)));
  EXPECT_TRUE(exchange.put(1, 8, tile(13)));
  EXPECT_EQ(taken(exchange, 0, 8), 0U) << "the inbox of the other core";
  EXPECT_EQ(taken(exchange, 1, 8), 11U);
  EXPECT_EQ(taken(exchange, 1, 8), 13U);
  EXPECT_EQ(taken(exchange, 1, 8), 0U);
  EXPECT_EQ(taken(exchange, 1, 9), 12U);
}

TEST(PairExchange, TakesNoThirdTileOfASemaphore) {
  PairExchange exchange;
  EXPECT_TRUE(exchange.put(3, 8, tile(1)));
  EXPECT_TRUE(exchange.put(3, 8, tile(2)));
  EXPECT_FALSE(exchange.put(3, 8, tile(3)));
  EXPECT_EQ(taken(exchange, 3, 8), 1U);
  EXPECT_TRUE(exchange.put(3, 8, tile(4)));
}

TEST(PairExchange, AResetDropsTheTilesOfThePairAndOfNoOther) {
  PairExchange exchange;
  for (unsigned core = 0; core < 4; ++core) EXPECT_TRUE(exchange.put(core, 8, tile(core + 1)));
  exchange.clear(3);
  EXPECT_EQ(taken(exchange, 2, 8), 0U);
  EXPECT_EQ(taken(exchange, 3, 8), 0U);
  EXPECT_EQ(taken(exchange, 0, 8), 1U);
  EXPECT_EQ(taken(exchange, 1, 8), 2U);
}

}  // namespace
}  // namespace neuron::chip
