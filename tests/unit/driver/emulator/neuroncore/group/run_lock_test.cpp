// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/run_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace neuron::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{30};

void await(const RunLock& lock) {
  for (const auto end = Clock::now() + kPatience; !lock.is_owed() && Clock::now() < end;) {
    std::this_thread::yield();
  }
  ASSERT_TRUE(lock.is_owed());
}

TEST(RunLock, GoesToWhoHasWaitedLongBeforeWhoOnlyTries) {
  RunLock lock;
  ASSERT_TRUE(lock.try_lock());
  std::atomic<bool> locked = false;
  std::thread waiter([&] { locked = lock.try_lock_until(Clock::now() + kPatience); });
  await(lock);
  lock.unlock();
  // Whether the other thread has woken up by now or not.
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(lock.try_lock()) << i;
  waiter.join();
  EXPECT_TRUE(locked);
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
}

TEST(RunLock, IsLeftToNobodyWhenTheOnlyOneThatWaitedHasGivenUp) {
  RunLock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock_for(std::chrono::milliseconds(1)));
  lock.unlock();
  EXPECT_FALSE(lock.is_owed());
  EXPECT_TRUE(lock.try_lock());
}

TEST(RunLock, ThreadsThatTryWithoutPauseKeepNobodyOut) {
  RunLock lock;
  std::atomic<bool> end = false;
  unsigned turns = 0;  // the lock's
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!end.load(std::memory_order_relaxed)) {
        if (!lock.try_lock()) continue;
        ++turns;
        lock.unlock();
      }
    });
  }
  for (unsigned i = 0; i < 50; ++i) {
    ASSERT_TRUE(lock.try_lock_for(kPatience)) << i;
    ++turns;
    lock.unlock();
  }
  end = true;
  for (std::thread& other : others) other.join();
  EXPECT_GE(turns, 50u);
}

TEST(RunLock, ThreadsThatWaitAllGetTheirTurnAlthoughSomeGiveUp) {
  RunLock lock;
  ASSERT_TRUE(lock.try_lock());
  std::atomic<unsigned> turns = 0;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.emplace_back([&, patient = i % 2 == 0] {
      if (!lock.try_lock_for(patient ? Clock::duration(kPatience) : std::chrono::milliseconds(1))) {
        return;
      }
      ++turns;
      lock.unlock();
    });
  }
  await(lock);
  std::this_thread::yield();
  lock.unlock();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_GE(turns, 4u);
}

}  // namespace
}  // namespace neuron::core
