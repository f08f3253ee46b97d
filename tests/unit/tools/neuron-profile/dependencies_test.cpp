// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::profile {
namespace {

class DependenciesOfEvents : public ::testing::Test {
 protected:
  struct Place {
    uint8_t engine = 0;
    uint32_t pc = 0;
  };
  uint64_t run(const Place& place, uint64_t begin, uint64_t end) {
    dependencies_.instruction({.begin = begin, .end = end, .pc = place.pc, .engine = place.engine},
                              rows_);
    return rows_++;
  }
  // After a wait for a cell.
  uint64_t run_after(uint32_t cell, uint64_t wait_end, const Place& place, uint64_t begin) {
    dependencies_.instruction({.begin = begin,
                               .end = begin + 10,
                               .wait = 5,
                               .wait_end = wait_end,
                               .wait_cell = cell,
                               .pc = place.pc,
                               .engine = place.engine},
                              rows_);
    return rows_++;
  }
  void change(uint32_t cell, const Place& by, uint64_t time, uint32_t before, uint32_t after) {
    dependencies_.update({.time = time,
                          .cell = cell,
                          .before = before,
                          .after = after,
                          .pc = by.pc,
                          .source = by.engine});
  }
  std::vector<std::string> told() {
    dependencies_.finish();
    return told_;
  }

  uint64_t rows_ = 0;
  std::vector<std::string> told_;
  Dependencies dependencies_{[this](const Dependency& one) {
    told_.push_back((one.from_transfer ? "transfer " : "instruction ") + std::to_string(one.from) +
                    (one.to_transfer ? " to transfer " : " to ") + std::to_string(one.to) + ", " +
                    std::to_string(one.gap));
  }};
};

TEST_F(DependenciesOfEvents, AWaitDependsOnTheLastChangeBeforeItsEnd) {
  run({.engine = 0, .pc = 7}, 0, 100);
  change(20, {.engine = 0, .pc = 7}, 100, 0, 1);
  run({.engine = 0, .pc = 8}, 100, 300);
  change(20, {.engine = 0, .pc = 8}, 300, 1, 2);
  run_after(20, 150, {.engine = 3, .pc = 1}, 160);
  EXPECT_THAT(told(), ::testing::ElementsAre("instruction 0 to 2, 60"));
}

// Changes at the reading of inputs come before the end of their instruction.
TEST_F(DependenciesOfEvents, AnInstructionThatHasNotEndedYetIsWaitedFor) {
  run({.engine = 0, .pc = 7}, 0, 50'000);
  change(20, {.engine = 0, .pc = 7}, 200'000, 0, 1);
  run_after(20, 200'050, {.engine = 3, .pc = 1}, 200'060);
  EXPECT_TRUE(told_.empty());
  run({.engine = 0, .pc = 7}, 190'000, 300'000);
  EXPECT_THAT(told(), ::testing::ElementsAre("instruction 2 to 1, -99940"));
}

TEST_F(DependenciesOfEvents, AChangeAtTheEndOfAnEarlierRoundIsNotTakenForThisOne) {
  run({.engine = 0, .pc = 7}, 0, 50'000);
  change(20, {.engine = 0, .pc = 7}, 50'000, 0, 1);
  run_after(20, 50'100, {.engine = 3, .pc = 1}, 50'200);
  run({.engine = 0, .pc = 7}, 60'000, 90'000);
  EXPECT_THAT(told(), ::testing::ElementsAre("instruction 0 to 1, 200"));
}

TEST_F(DependenciesOfEvents, TransfersDependOnTheirTriggerAndWaitsOnTransfers) {
  run({.engine = 4, .pc = 2}, 0, 100);
  const TransferEvent transfer{
      .begin = 1000, .end = 2000, .bytes = 8, .pc = 2, .trigger = 4, .dma_engine = 5, .queue = 1};
  dependencies_.update({.time = 2000,
                        .cell = 30,
                        .after = 1,
                        .source = NEURON_ENGINE_DMA,
                        .dma_engine = 5,
                        .queue = 1});
  EXPECT_EQ(dependencies_.changed_by(transfer), 30u);
  const auto trigger = dependencies_.transfer(transfer, 0);
  ASSERT_TRUE(trigger);
  EXPECT_EQ(trigger->end, 100u);
  run_after(30, 2050, {.engine = 3, .pc = 1}, 2060);
  run_after(NEURON_WAITED_FOR_DMA, 2000, {.engine = 4, .pc = 3}, 2100);
  EXPECT_THAT(told(), ::testing::ElementsAre("instruction 0 to transfer 0, 900",
                                             "transfer 0 to 1, 60", "transfer 0 to 2, 100"));
}

TEST_F(DependenciesOfEvents, WhatTheHostOrACollectiveCoreEndsIsNotTold) {
  change(7, {.engine = NEURON_ENGINE_HOST}, 10, 0, 1);
  change(8, {.engine = NEURON_ENGINE_CC}, 10, 0, 1);
  run_after(7, 60, {.engine = 4, .pc = 0}, 60);
  run_after(8, 60, {.engine = 4, .pc = 1}, 80);
  run_after(9, 60, {.engine = 4, .pc = 2}, 90);
  EXPECT_TRUE(told().empty());
}

TEST_F(DependenciesOfEvents, OnlyTheLastInstructionsOfAnEngineAreKept) {
  run({.engine = 0, .pc = 1}, 0, 10);
  for (uint64_t n = 0; n < Dependencies::kMostRan; ++n) run({.engine = 0, .pc = 2}, n, n + 10);
  const TransferEvent by_first{.begin = 100, .end = 200, .pc = 1, .trigger = 0};
  const TransferEvent by_later{.begin = 100, .end = 200, .pc = 2, .trigger = 0};
  EXPECT_FALSE(dependencies_.transfer(by_first, 0));
  const auto later = dependencies_.transfer(by_later, 1);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->begin, 100u);
}

}  // namespace
}  // namespace neuron::profile
