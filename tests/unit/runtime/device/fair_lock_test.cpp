// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/fair_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace neuron::runtime {
namespace {

TEST(FairLock, GivesUpAtItsDeadlineAndLeavesTheQueue) {
  FairLock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  EXPECT_FALSE(lock.lock(base::Deadline::after(std::chrono::milliseconds(5))));
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(FairLock, IsHandedToEveryWaiter) {
  FairLock lock;
  int inside = 0, turns = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(lock.lock(base::Deadline::after(std::chrono::seconds(20))));
        EXPECT_EQ(++inside, 1);
        ++turns;
        --inside;
        lock.unlock();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(turns, 400);
}

TEST(FairLock, IsGrantedInTheOrderOfAsking) {
  FairLock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.has_waiters());
  std::vector<int> order;
  std::vector<std::thread> threads;
  std::atomic<int> waiting{0};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (waiting != t) std::this_thread::yield();
      // The next thread asks once this one waits or has had its turn.
      std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ++waiting;
      }).detach();
      ASSERT_TRUE(lock.lock(base::Deadline::after(std::chrono::seconds(20))));
      order.push_back(t);
      lock.unlock();
    });
  }
  while (waiting != 3) std::this_thread::yield();
  EXPECT_TRUE(lock.has_waiters());
  lock.unlock();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(lock.has_waiters());
  EXPECT_TRUE(lock.try_lock()) << "the last one left it free";
}

TEST(FairLock, AWaiterThatGivesUpLeavesTheOthersInTheirOrder) {
  FairLock lock;
  ASSERT_TRUE(lock.try_lock());
  std::atomic<bool> first_waits{false};
  std::thread impatient([&] {
    first_waits = true;
    EXPECT_FALSE(lock.lock(base::Deadline::after(std::chrono::milliseconds(60))));
  });
  while (!first_waits || !lock.has_waiters()) std::this_thread::yield();
  bool had = false;
  std::thread patient([&] {
    had = lock.lock(base::Deadline::after(std::chrono::seconds(20)));
    lock.unlock();
  });
  impatient.join();
  while (!lock.has_waiters()) std::this_thread::yield();
  lock.unlock();
  patient.join();
  EXPECT_TRUE(had);
}

TEST(FairLock, IsNotKeptFromAWaiterThatIsDue) {
  FairLock lock;
  ASSERT_TRUE(lock.try_lock());
  std::atomic<bool> may_end{false};
  std::thread waiter([&] {
    ASSERT_TRUE(lock.lock(base::Deadline::after(std::chrono::seconds(20))));
    while (!may_end) std::this_thread::yield();
    lock.unlock();
  });
  while (!lock.has_waiters()) std::this_thread::yield();
  std::this_thread::sleep_for(2 * FairLock::kBurst);
  lock.unlock();
  EXPECT_FALSE(lock.try_lock()) << "it is the waiter's, though that one may not run yet";
  may_end = true;
  waiter.join();
}

TEST(FairLock, ThatIsTakenAgainAndLeftFreeReachesItsWaiter) {
  FairLock lock;
  int taken_again = 0;
  for (int n = 0; n < 300; ++n) {
    ASSERT_TRUE(lock.lock(base::Deadline::after(std::chrono::seconds(20))));
    std::thread waiter([&] {
      ASSERT_TRUE(lock.lock(base::Deadline::after(std::chrono::seconds(20))));
      lock.unlock();
    });
    while (!lock.has_waiters()) std::this_thread::yield();
    lock.unlock();  // Tells the waiter
    if (lock.try_lock()) {
      ++taken_again;
      lock.unlock();  // Does not tell it again
    }
    waiter.join();
  }
  EXPECT_GT(taken_again, 0) << "this never happened, so nothing was tested";
}

TEST(FairLock, ThreadsThatGiveUpTakeNoTurnFromThoseThatDoNot) {
  FairLock lock;
  int inside = 0, turns = 0;  // Under the lock
  std::atomic<int> given_up{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const auto limit = t < 3 ? std::chrono::microseconds(i % 300) : std::chrono::seconds(20);
        if (!lock.lock(base::Deadline::after(limit))) {
          ASSERT_LT(t, 3);
          ++given_up;
          continue;
        }
        EXPECT_EQ(++inside, 1);
        ++turns;
        --inside;
        if (i % 16 == 0) std::this_thread::sleep_for(FairLock::kBurst);  // Held beyond a burst
        lock.unlock();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(turns + given_up, 6 * 500);
  EXPECT_GT(given_up, 0) << "nobody gave up, so nothing was tested";
}

}  // namespace
}  // namespace neuron::runtime
