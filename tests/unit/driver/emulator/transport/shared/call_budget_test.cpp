// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/call_budget.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "tests/support/eventually.h"

namespace neuron::transport {
namespace {

constexpr uint64_t kRoom = 256;
constexpr std::chrono::milliseconds kMoment{100};
const std::atomic<bool> kHere = false;

service::Client budget_client(int number, uint32_t user) {
  return {number, user, static_cast<uint64_t>(number) + 1};
}

// A call of a client in a thread of its own, until it is ended.
class LongCall {
 public:
  LongCall(CallBudget& budget, const service::Client& client, uint64_t bytes) {
    done_ = std::async(std::launch::async, [this, &budget, client, bytes] {
      CallMemory memory(budget, client);
      const bool taken = memory.take(bytes, gone_);
      if (taken) has_ = true;
      end_.get_future().wait();
      return taken;
    });
  }
  // Soon, on however busy a host.
  bool has_it() {
    return test::eventually([this] { return has_.load(); });
  }
  bool waits() {
    return !test::eventually([this] { return has_.load(); }, kMoment);
  }
  void abandon() { gone_ = true; }
  // Whether it had what it wanted.
  bool end() {
    end_.set_value();
    return done_.get();
  }

 private:
  std::atomic<bool> gone_ = false, has_ = false;
  std::promise<void> end_;
  std::future<bool> done_;
};

TEST(CallBudget, GivesOutNoMoreThanItsRoomAndTheRestWhenSomethingComesBack) {
  CallBudget budget(kRoom);
  LongCall first(budget, budget_client(1, 1), 100), second(budget, budget_client(2, 2), 100);
  ASSERT_TRUE(first.has_it());
  ASSERT_TRUE(second.has_it());
  LongCall third(budget, budget_client(3, 3), 100);
  EXPECT_TRUE(third.waits());
  EXPECT_TRUE(first.end());
  EXPECT_TRUE(third.has_it());
  EXPECT_TRUE(second.end());
  EXPECT_TRUE(third.end());
}

TEST(CallBudget, OfOneUserLeavesRoomForOthersHoweverManyProcessesItHas) {
  CallBudget budget(kRoom);
  std::vector<std::unique_ptr<LongCall>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(std::make_unique<LongCall>(budget, budget_client(i, 1), 64));
    if (i < 2) {
      EXPECT_TRUE(calls.back()->has_it()) << i;
    }
  }
  EXPECT_TRUE(calls[2]->waits());
  EXPECT_TRUE(calls[3]->waits());
  LongCall other(budget, budget_client(9, 2), 64);
  EXPECT_TRUE(other.has_it());
  EXPECT_TRUE(other.end());
  for (const auto& call : calls) EXPECT_TRUE(call->end());
}

TEST(CallBudget, LetsNobodyOvertakeTheOneWhoHasLeast) {
  CallBudget budget(kRoom);
  LongCall first(budget, budget_client(1, 1), 100), second(budget, budget_client(2, 2), 40);
  ASSERT_TRUE(first.has_it());
  ASSERT_TRUE(second.has_it());
  LongCall large(budget, budget_client(3, 3), kRoom);
  EXPECT_TRUE(large.waits());
  // There is room for it, and it would keep the large one waiting for ever.
  LongCall small(budget, budget_client(2, 2), 1);
  EXPECT_TRUE(small.waits());
  EXPECT_TRUE(first.end());
  EXPECT_TRUE(second.end());
  EXPECT_TRUE(large.has_it());
  EXPECT_TRUE(large.end());
  EXPECT_TRUE(small.has_it());
  EXPECT_TRUE(small.end());
}

TEST(CallBudget, IsNotWaitedForByACallWhoseClientIsGone) {
  CallBudget budget(kRoom);
  LongCall first(budget, budget_client(1, 1), 200);
  ASSERT_TRUE(first.has_it());
  LongCall large(budget, budget_client(2, 2), kRoom);
  EXPECT_TRUE(large.waits());
  LongCall small(budget, budget_client(3, 3), 10);
  EXPECT_TRUE(small.waits());
  large.abandon();
  EXPECT_FALSE(large.end());
  EXPECT_TRUE(small.has_it()) << "what waited behind it has its turn";
  EXPECT_TRUE(small.end());
  EXPECT_TRUE(first.end());
  const service::Client last = budget_client(4, 4);
  EXPECT_TRUE(CallMemory(budget, last).take(kRoom, kHere)) << "everything is back";
}

}  // namespace
}  // namespace neuron::transport
