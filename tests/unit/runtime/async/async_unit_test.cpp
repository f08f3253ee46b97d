// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_unit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using ::testing::HasSubstr;

class Unit : public ::testing::Test {
 protected:
  static constexpr uint64_t kFirst = 100;
  static constexpr uint32_t kDepth = 4;

  Result<uint64_t> submit(NRT_STATUS* word = nullptr, uint64_t earliest = 0) {
    AsyncRequest request;
    request.kind = AsyncKind::kWrite;
    request.result.word = word;
    request.earliest_ps = earliest;
    return unit_.submit(std::move(request), idle_);
  }

  test::FakeMachine machine_;
  std::unique_ptr<Core> core_ = machine_.core(1);
  AsyncUnit unit_{*core_, NRTA_XU_TENSOR_WRITE, 1, 0x91, kFirst, kDepth};
  bool idle_ = false;
};

TEST_F(Unit, NumbersRequestsAndHandsItselfToOneWorker) {
  EXPECT_EQ(*submit(), kFirst + 1);
  EXPECT_TRUE(idle_) << "the first request finds no worker";
  EXPECT_EQ(*submit(), kFirst + 2);
  EXPECT_FALSE(idle_);
  EXPECT_EQ(unit_.available(), 2u);
  EXPECT_EQ(unit_.submitted(), kFirst + 2);
  EXPECT_EQ(unit_.completed(), kFirst);
  EXPECT_EQ(unit_.sequence(5), 0x91ull << 48 | 5);
  EXPECT_STREQ(unit_.name(), "tensor write");
}

TEST_F(Unit, IsFullAtItsDepth) {
  for (uint32_t i = 0; i < kDepth; ++i) ASSERT_TRUE(submit());
  const auto full = submit();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().status, NRT_QUEUE_FULL);
  EXPECT_EQ(full.error().sentence,
            "device 0 core 1: tensor write queue 1 has 4 requests outstanding, which is its depth; "
            "wait for one, or raise NEURON_OPEN_ASYNC_QUEUE_DEPTH");
  unit_.complete(1, NRT_SUCCESS, 0);
  EXPECT_EQ(*submit(), kFirst + kDepth + 1);
  EXPECT_FALSE(submit());
}

TEST_F(Unit, CompletesInOrderAndLeavesEachStatus) {
  NRT_STATUS words[3] = {NRT_FAILURE, NRT_FAILURE, NRT_FAILURE};
  for (NRT_STATUS& word : words) ASSERT_TRUE(submit(&word));
  unit_.complete(2, NRT_SUCCESS, 10);
  EXPECT_EQ(words[0], NRT_SUCCESS);
  EXPECT_EQ(words[1], NRT_SUCCESS);
  EXPECT_EQ(words[2], NRT_FAILURE);
  EXPECT_EQ(unit_.completed(), kFirst + 2);
  EXPECT_EQ(unit_.available(), 1u);
  unit_.complete(1, NRT_TIMEOUT, 5);
  EXPECT_EQ(words[2], NRT_TIMEOUT);
  const AsyncUnit::Totals totals = unit_.totals();
  EXPECT_EQ(totals.completed, 3u);
  EXPECT_EQ(totals.failed, 1u);
  EXPECT_EQ(totals.busy_ps, 25u);
  EXPECT_EQ(totals.start_ps, 20u);
  EXPECT_EQ(totals.end_ps, 25u);
}

TEST_F(Unit, TellsATrackerOfFailuresOnly) {
  HandleTable table;
  void* handle = *table.insert(HandleKind::kTracker, std::make_unique<AsyncErrorTracker>());
  for (int i = 0; i < 2; ++i) {
    AsyncRequest request;
    request.result.tracker = Pin<AsyncErrorTracker>(table, handle, HandleKind::kTracker);
    ASSERT_TRUE(unit_.submit(std::move(request), idle_));
  }
  unit_.complete(1, NRT_SUCCESS, 0);
  unit_.complete(1, NRT_INVALID, 0);
  const Pin<AsyncErrorTracker> tracker(table, handle, HandleKind::kTracker);
  const auto& list = tracker->take();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].sequence, unit_.sequence(kFirst + 2));
  EXPECT_EQ(list[0].status, static_cast<uint64_t>(NRT_INVALID));
}

TEST_F(Unit, ReleasesWhatARequestKeptBeforeItIsSeenCompleted) {
  AsyncRequest request;
  request.storage = *Storage::plain(8, "s");
  const std::weak_ptr<Storage> storage = request.storage;
  ASSERT_TRUE(unit_.submit(std::move(request), idle_));
  EXPECT_FALSE(storage.expired());
  unit_.complete(1, NRT_SUCCESS, 0);
  EXPECT_TRUE(storage.expired());
}

TEST_F(Unit, ARequestBeginsAfterTheOneBeforeAndNotBeforeItsTime) {
  ASSERT_TRUE(submit());
  ASSERT_TRUE(submit(nullptr, 50));
  ASSERT_TRUE(submit(nullptr, 20));
  unit_.complete(3, NRT_SUCCESS, 10);
  EXPECT_EQ(unit_.end_of(kFirst + 1), 10u);
  EXPECT_EQ(unit_.end_of(kFirst + 2), 60u);
  EXPECT_EQ(unit_.end_of(kFirst + 3), 70u);
  EXPECT_EQ(unit_.totals().start_ps, 60u);
}

TEST_F(Unit, ForgetsTheEndOfARequestWhenAsManyOthersHaveCompletedAsItIsDeep) {
  for (uint32_t i = 0; i < kDepth; ++i) {
    ASSERT_TRUE(submit());
    unit_.complete(1, NRT_SUCCESS, 10);
  }
  EXPECT_EQ(unit_.end_of(kFirst + 1), 10u);
  ASSERT_TRUE(submit());
  unit_.complete(1, NRT_SUCCESS, 10);
  EXPECT_EQ(unit_.end_of(kFirst + 1), 0u);
  EXPECT_EQ(unit_.end_of(kFirst + 2), 20u);
}

TEST_F(Unit, AWorkerRestsOnlyIfNoRequestIsLeft) {
  ASSERT_TRUE(submit());
  EXPECT_FALSE(unit_.rest()) << "there is a request";
  unit_.complete(1, NRT_SUCCESS, 0);
  EXPECT_TRUE(unit_.rest());
  ASSERT_TRUE(submit());
  EXPECT_TRUE(idle_) << "the next request needs a worker again";
}

TEST_F(Unit, ADeadUnitTakesNothing) {
  unit_.kill(NRT_EXEC_UNIT_UNRECOVERABLE);
  const auto refused = submit();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_EXEC_UNIT_UNRECOVERABLE);
  EXPECT_THAT(refused.error().sentence,
              HasSubstr("device 0 core 1: tensor write queue 1 takes no more requests"));
}

TEST_F(Unit, EveryKindHasItsName) {
  const std::pair<nrta_xu_t, const char*> names[] = {{NRTA_XU_TENSOR_READ, "tensor read"},
                                                     {NRTA_XU_TENSOR_WRITE, "tensor write"},
                                                     {NRTA_XU_TENSOR_OP, "tensor copy"},
                                                     {NRTA_XU_COMPUTE, "compute"}};
  for (const auto& [type, name] : names) {
    EXPECT_STREQ(AsyncUnit(*core_, type, 0, 0, 0, 2).name(), name);
  }
}

}  // namespace
}  // namespace neuron::runtime
