// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace neuron::transport {
namespace {

constexpr std::chrono::seconds kPatience{30};

// As on a host that gives no more threads.
TEST(Workers, RunJobsWhenNoThreadCanBeAddedForThem) {
  Workers workers(0);
  std::promise<void> first, second;
  workers.submit([&] { first.set_value(); });
  workers.submit([&] { second.set_value(); });
  EXPECT_EQ(first.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(second.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(Workers, LetNoJobWaitForAnotherThatBlocks) {
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  std::promise<void> done;
  Workers workers(4);
  for (int i = 0; i < 3; ++i) workers.submit([released] { released.wait(); });
  workers.submit([&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  release.set_value();
}

TEST(Workers, FinishWhatWasSubmittedBeforeTheyEnd) {
  std::atomic<int> done = 0;
  {
    Workers workers(2);
    for (int i = 0; i < 20; ++i)
      workers.submit([&] {
        if (++done <= 10) workers.submit([&] { ++done; });
      });
  }
  EXPECT_GE(done, 30);
}

}  // namespace
}  // namespace neuron::transport
