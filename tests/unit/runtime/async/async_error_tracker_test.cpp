// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_error_tracker.h"

#include <gtest/gtest.h>

#include <thread>

namespace neuron::runtime {
namespace {

TEST(AsyncErrorTracker, GivesWhatCameSinceItWasAskedLast) {
  AsyncErrorTracker tracker;
  EXPECT_TRUE(tracker.take().empty());
  tracker.add(7, NRT_TIMEOUT);
  tracker.add(9, NRT_INVALID);
  const auto list = tracker.take();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].sequence, 7u);
  EXPECT_EQ(list[0].status, static_cast<uint64_t>(NRT_TIMEOUT));
  EXPECT_EQ(list[1].sequence, 9u);
  EXPECT_TRUE(tracker.take().empty());
}

TEST(AsyncErrorTracker, LeavesAListToTheThreadThatHasItWhenAnotherAsks) {
  AsyncErrorTracker tracker;
  tracker.add(1, NRT_TIMEOUT);
  tracker.add(2, NRT_TIMEOUT);
  const auto& list = tracker.take();
  std::thread([&] {
    tracker.add(3, NRT_INVALID);
    EXPECT_EQ(tracker.take().size(), 1u);
  }).join();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].sequence, 1u);
  EXPECT_EQ(list[1].sequence, 2u);
}

TEST(AsyncErrorTracker, BeyondItsLimitTheOldestGo) {
  AsyncErrorTracker tracker;
  for (uint64_t i = 0; i < AsyncErrorTracker::kLimit; ++i) tracker.add(i, NRT_FAILURE);
  EXPECT_EQ(tracker.take().front().sequence, 0u);
  for (uint64_t i = 0; i <= AsyncErrorTracker::kLimit; ++i) tracker.add(i, NRT_FAILURE);
  const auto list = tracker.take();
  EXPECT_EQ(list.size(), AsyncErrorTracker::kLimit);
  EXPECT_EQ(list.front().sequence, 1u);
  EXPECT_EQ(list.back().sequence, AsyncErrorTracker::kLimit);
}

}  // namespace
}  // namespace neuron::runtime
