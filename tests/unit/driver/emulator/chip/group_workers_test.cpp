// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/group_workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>

namespace neuron::chip {
namespace {

using Clock = std::chrono::steady_clock;

// Records runs and lets the test wait for them.
class Runs {
 public:
  RunResult run(unsigned core) {
    const std::lock_guard guard(lock_);
    ++counts_[core];
    threads_.insert(std::this_thread::get_id());
    changed_.notify_all();
    return counts_[core] < wanted_[core] ? RunResult::kDeadline : RunResult::kQuiescent;
  }
  bool wait_for(unsigned core, int count) {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, std::chrono::seconds(10),
                             [&] { return counts_[core] >= count; });
  }
  void want(unsigned core, int count) { wanted_[core] = count; }
  bool ran_in(std::thread::id id) const { return threads_.count(id) != 0; }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::array<int, 8> counts_ = {};
  std::array<int, 8> wanted_ = {};
  std::set<std::thread::id> threads_;
};

TEST(GroupWorkers, HaveNoThreadBeforeTheyAreNeeded) {
  GroupWorkers workers(4, [](unsigned, Clock::time_point) { return RunResult::kQuiescent; });
  EXPECT_EQ(workers.threads(), 0u);
}

TEST(GroupWorkers, RunAWokenGroupInAnotherThread) {
  Runs runs;
  GroupWorkers workers(2, [&](unsigned core, Clock::time_point) { return runs.run(core); });
  workers.wake(1);
  EXPECT_TRUE(runs.wait_for(1, 1));
  EXPECT_FALSE(runs.ran_in(std::this_thread::get_id()));
  EXPECT_EQ(workers.threads(), 1u);
}

TEST(GroupWorkers, RunAGroupAgainUntilItIsQuiescent) {
  Runs runs;
  runs.want(0, 5);
  GroupWorkers workers(1, [&](unsigned core, Clock::time_point) { return runs.run(core); });
  workers.wake(0);
  EXPECT_TRUE(runs.wait_for(0, 5));
}

TEST(GroupWorkers, NeverExceedTheirLimit) {
  Runs runs;
  GroupWorkers workers(2, [&](unsigned core, Clock::time_point) { return runs.run(core); });
  for (unsigned core = 0; core < 8; ++core) workers.wake(core);
  for (unsigned core = 0; core < 8; ++core) EXPECT_TRUE(runs.wait_for(core, 1));
  EXPECT_LE(workers.threads(), 2u);
}

TEST(GroupWorkers, StopEvenIfAGroupNeverEnds) {
  std::atomic<int> slices = 0;
  {
    GroupWorkers workers(1, [&](unsigned, Clock::time_point) {
      ++slices;
      return RunResult::kDeadline;
    });
    workers.wake(0);
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (slices < 3 && Clock::now() < limit) std::this_thread::yield();
  }
  EXPECT_GE(slices, 3);
}

}  // namespace
}  // namespace neuron::chip
