// SPDX-License-Identifier: Apache-2.0
// A mutex with a deadline: keeps others out, is handed on, and is given up in time. The thread
// sanitizer sees what it guards.
#include "driver/base/timed_mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace neuron::base {
namespace {

constexpr std::chrono::seconds kPatience{60};  // for a busy host

TEST(TimedMutex, IsRefusedWhileAnotherHoldsIt) {
  TimedMutex mutex;
  const std::unique_lock held(mutex, kPatience);
  ASSERT_TRUE(held);
  EXPECT_FALSE(std::unique_lock(mutex, std::try_to_lock));
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(std::unique_lock(mutex, std::chrono::milliseconds(20)));
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(20));
}

TEST(TimedMutex, GoesToWhoWaitsWhenItIsFreed) {
  TimedMutex mutex;
  int value = 0;  // of whoever holds the mutex
  bool got = false;
  std::unique_lock held(mutex, kPatience);
  std::thread waiter([&] {
    const std::unique_lock lock(mutex, kPatience);
    got = lock.owns_lock() && value == 1;
  });
  value = 1;
  held.unlock();
  waiter.join();
  EXPECT_TRUE(got);
}

TEST(TimedMutex, LetsOneThreadInAtATime) {
  TimedMutex mutex;
  int sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const std::unique_lock lock(mutex, kPatience);
        if (lock) ++sum;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 2000);
}

// A span longer than the clock can express is no deadline in the past.
TEST(TimedMutex, IsWaitedForForAsLongAsOneLikes) {
  TimedMutex mutex;
  std::unique_lock held(mutex, kPatience);
  std::thread waiter(
      [&] { EXPECT_TRUE(std::unique_lock(mutex, std::chrono::milliseconds::max() / 1'000'000)); });
  held.unlock();
  waiter.join();
}

}  // namespace
}  // namespace neuron::base
