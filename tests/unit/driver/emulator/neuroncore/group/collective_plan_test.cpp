// SPDX-License-Identifier: Apache-2.0
// When runs of the queue of collectives begin, and which descriptors are theirs.
#include "driver/emulator/neuroncore/group/collective_plan.h"

#include <gtest/gtest.h>

namespace neuron::core {
namespace {

chip::DmaRun run_of(uint32_t m2s, uint32_t s2m, uint32_t generation = 1) {
  chip::DmaRun run;
  run.packets = s2m;
  run.m2s = m2s;
  run.s2m = s2m;
  run.generation = generation;
  return run;
}

TEST(CollectivePlan, BeginsBehindTheStartOfAnEngineThatHasNothingToDo) {
  CollectivePlan plan;
  EXPECT_EQ(plan.begin(500), 500 + isa::kDmaStart);
  plan.add(run_of(1, 1), 500 + isa::kDmaStart, 2'000'000);
  EXPECT_EQ(plan.begin(2'000'000), 2'000'000U) << "still at work at that time";
  EXPECT_EQ(plan.begin(2'000'001), 2'000'001 + isa::kDmaStart);
}

TEST(CollectivePlan, BeginsBehindARunThatIsDoneIfItIsRungForBeforeThatEnded) {
  CollectivePlan plan;
  plan.add(run_of(1, 1), 100, 2'000'000);
  plan.done();
  EXPECT_TRUE(plan.empty());
  EXPECT_EQ(plan.begin(1'000), 2'000'000U);
  plan.restart_time();
  EXPECT_EQ(plan.begin(1'000), 1'000 + isa::kDmaStart) << "another launch";
}

TEST(CollectivePlan, CountsTheDescriptorsOfRunsThatAreNotDone) {
  CollectivePlan plan;
  plan.add(run_of(3, 1), 0, 10);
  plan.add(run_of(5, 2), 10, 20);
  EXPECT_EQ(plan.ahead().m2s, 8U);
  EXPECT_EQ(plan.ahead().s2m, 3U);
  EXPECT_EQ(plan.next().end, 10U);
  plan.done();
  EXPECT_EQ(plan.ahead().m2s, 5U);
  EXPECT_EQ(plan.next().begin, 10U);
  plan.clear();
  EXPECT_EQ(plan.ahead().m2s, 0U);
  EXPECT_EQ(plan.begin(15), 20U) << "what is taken away has had its time";
}

TEST(CollectivePlan, SeesRunsOfRingsThatWereRewound) {
  CollectivePlan plan;
  EXPECT_FALSE(plan.is_stale(run_of(1, 1, 7))) << "nothing is planned";
  plan.add(run_of(1, 1, 7), 0, 10);
  EXPECT_FALSE(plan.is_stale(run_of(1, 1, 7)));
  EXPECT_TRUE(plan.is_stale(run_of(1, 1, 8)));
}

TEST(CollectivePlan, IsFullWithSoManyRuns) {
  CollectivePlan plan;
  for (size_t n = 0; n < CollectivePlan::kMostRuns; ++n) {
    EXPECT_FALSE(plan.is_full()) << n;
    plan.add(run_of(1, 1), n, n + 1);
  }
  EXPECT_TRUE(plan.is_full());
  plan.done();
  EXPECT_FALSE(plan.is_full());
}

}  // namespace
}  // namespace neuron::core
