// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_queues.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "runtime/async/async_cost.h"
#include "runtime/device/core_turn.h"
#include "runtime/exec/executor.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using ::testing::HasSubstr;

class Queues : public ::testing::Test {
 protected:
  void SetUp() override {
    auto queues = AsyncQueues::of(*sample_.session);
    ASSERT_TRUE(queues);
    queues_ = *queues;
  }
  static base::Deadline patience() { return base::Deadline::after(std::chrono::seconds(20)); }
  // Submits and waits; the status of the request.
  NRT_STATUS perform(AsyncUnit& unit, AsyncRequest request) {
    NRT_STATUS status = NRT_FAILURE;
    request.result.word = &status;
    const auto sequence = queues_->submit(unit, std::move(request));
    EXPECT_TRUE(sequence);
    EXPECT_TRUE(unit.wait(*sequence & NRTA_SEQ_NUM_MASK, patience()));
    return status;
  }

  test::LoadedSample sample_;
  AsyncQueues* queues_ = nullptr;
};

TEST_F(Queues, AreMadeOnceForASession) {
  EXPECT_EQ(*AsyncQueues::of(*sample_.session), queues_);
  EXPECT_EQ(AsyncQueues::existing(*sample_.session), queues_);
}

TEST_F(Queues, ACoreHasTwoQueuesForTransfersAndOneForTheRest) {
  for (const nrta_xu_t type : {NRTA_XU_TENSOR_READ, NRTA_XU_TENSOR_WRITE, NRTA_XU_TENSOR_OP,
                               NRTA_XU_COMPUTE, NRTA_XU_COLLECTIVES}) {
    const int most = type == NRTA_XU_COMPUTE || type == NRTA_XU_COLLECTIVES ? 1 : 2;
    for (int queue = 0; queue < most; ++queue) {
      const auto unit = queues_->unit(0, type, queue);
      ASSERT_TRUE(unit);
      EXPECT_EQ((*unit)->type(), type);
      EXPECT_EQ((*unit)->queue(), static_cast<uint32_t>(queue));
      EXPECT_EQ((*unit)->sequence(0) >> 48, static_cast<uint64_t>(type) << 4 | queue);
    }
    const auto none = queues_->unit(0, type, most);
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().sentence, HasSubstr(most == 1 ? "queue 0 only" : "queues 0 and 1"));
    EXPECT_FALSE(queues_->unit(0, type, -1));
  }
  EXPECT_THAT(queues_->unit(0, static_cast<nrta_xu_t>(NRTA_XU_TYPE_NUM), 0).error().sentence,
              HasSubstr("is none of 0 to 4"));
  EXPECT_THAT(queues_->unit(1, NRTA_XU_COMPUTE, 0).error().sentence,
              HasSubstr("core 1 was asked for; this process has cores 0-0"));
}

TEST_F(Queues, KnowOnlySequenceIdsThatTheyGave) {
  AsyncUnit& unit = **queues_->unit(0, NRTA_XU_TENSOR_WRITE, 0);
  EXPECT_FALSE(queues_->unit_of(unit.sequence(unit.first())));
  EXPECT_FALSE(queues_->unit_of(unit.sequence(unit.first() + 1)));
  const auto given = queues_->submit(unit, {.kind = AsyncKind::kWrite});
  ASSERT_TRUE(given);
  EXPECT_EQ(*queues_->unit_of(*given), &unit);
  EXPECT_FALSE(queues_->unit_of(*given + 1));
  EXPECT_FALSE(queues_->unit_of(*given | 1ull << 55)) << "another core";
  EXPECT_FALSE(queues_->unit_of(*given | 7ull << 52)) << "another type";
  EXPECT_TRUE(unit.wait(unit.first() + 1, patience()));
}

TEST_F(Queues, MoveBytesAtTheirOffsets) {
  auto source = Storage::plain(8, "s"), target = Storage::plain(8, "t");
  ASSERT_TRUE((*target)->fill(0, 8, 0));
  std::array<uint8_t, 4> bytes = {1, 2, 3, 4}, back{};
  AsyncUnit& writes = **queues_->unit(0, NRTA_XU_TENSOR_WRITE, 0);
  EXPECT_EQ(perform(writes, {.kind = AsyncKind::kWrite,
                             .storage = *source,
                             .host = reinterpret_cast<std::byte*>(bytes.data()),
                             .offset = 2,
                             .size = 4}),
            NRT_SUCCESS);
  AsyncUnit& copies = **queues_->unit(0, NRTA_XU_TENSOR_OP, 1);
  EXPECT_EQ(perform(copies, {.kind = AsyncKind::kCopy,
                             .storage = *target,
                             .source = *source,
                             .offset = 1,
                             .source_offset = 3,
                             .size = 2}),
            NRT_SUCCESS);
  AsyncUnit& reads = **queues_->unit(0, NRTA_XU_TENSOR_READ, 0);
  EXPECT_EQ(perform(reads, {.kind = AsyncKind::kRead,
                            .storage = *target,
                            .host = reinterpret_cast<std::byte*>(back.data()),
                            .offset = 0,
                            .size = 4}),
            NRT_SUCCESS);
  EXPECT_EQ(back, (std::array<uint8_t, 4>{0, 2, 3, 0}));
  EXPECT_EQ(writes.totals().busy_ps, transfer_cost_ps(4));
  EXPECT_EQ(perform(writes, {.kind = AsyncKind::kNothing, .size = 1}), NRT_FAILURE);
}

TEST_F(Queues, ExecuteAndCountTheModelTime) {
  const auto tensors =
      match_cached(*sample_.session, *sample_.loaded, sample_.inputs, sample_.outputs);
  ASSERT_TRUE(tensors);
  auto loaded = sample_.session->handles.insert(HandleKind::kModel, std::move(sample_.loaded));
  AsyncUnit& unit = **queues_->unit(0, NRTA_XU_COMPUTE, 0);
  AsyncRequest request;
  request.kind = AsyncKind::kExecute;
  request.tensors = *tensors;
  request.model = Pin<LoadedModel>(sample_.session->handles, *loaded, HandleKind::kModel);
  EXPECT_EQ(perform(unit, std::move(request)), NRT_SUCCESS);
  EXPECT_EQ(unit.totals().busy_ps, 1000u);
  EXPECT_EQ(sample_.launches.size(), 1u);
}

TEST_F(Queues, AStorageBelongsToTheCoreOfItsMemory) {
  auto host = Storage::plain(8, "h");
  EXPECT_EQ(queues_->core_of(**host), 0u);
  auto device = Storage::device(sample_.core->device(), 0, 8, sample_.session->mappings, "d");
  EXPECT_EQ(queues_->core_of(**device), 0u);
}

TEST_F(Queues, WhatWasObservedIsBeforeWhatIsScheduledThen) {
  auto storage = Storage::plain(8, "s");
  std::array<std::byte, 8> bytes{};
  AsyncUnit& writes = **queues_->unit(0, NRTA_XU_TENSOR_WRITE, 0);
  AsyncUnit& others = **queues_->unit(0, NRTA_XU_TENSOR_WRITE, 1);
  const auto write = [&] {
    return AsyncRequest{
        .kind = AsyncKind::kWrite, .storage = *storage, .host = bytes.data(), .size = 8};
  };
  ASSERT_EQ(perform(writes, write()), NRT_SUCCESS);
  ASSERT_EQ(perform(others, write()), NRT_SUCCESS);
  EXPECT_EQ(others.totals().start_ps, 0u) << "queues do not slow each other down";
  queues_->observed(writes, writes.completed());
  ASSERT_EQ(perform(others, write()), NRT_SUCCESS);
  EXPECT_EQ(others.totals().start_ps, transfer_cost_ps(8));
  ASSERT_EQ(perform(others, write()), NRT_SUCCESS);
  queues_->observed(others, others.completed());
  queues_->observed(writes, writes.completed());
  ASSERT_EQ(perform(writes, write()), NRT_SUCCESS);
  EXPECT_EQ(writes.totals().start_ps, 3 * transfer_cost_ps(8)) << "an earlier time changes nothing";
}

TEST_F(Queues, AnExecutionThatDoesNotComeIsWaitedForOneLimit) {
  EXPECT_TRUE(queues_->wait_for_executions(*sample_.core, std::chrono::seconds(0)));
  const auto tensors =
      match_cached(*sample_.session, *sample_.loaded, sample_.inputs, sample_.outputs);
  auto loaded = sample_.session->handles.insert(HandleKind::kModel, std::move(sample_.loaded));
  {
    const auto turn = CoreTurn::take(*sample_.core);
    ASSERT_TRUE(turn);
    AsyncRequest request;
    request.kind = AsyncKind::kExecute;
    request.tensors = *tensors;
    request.model = Pin<LoadedModel>(sample_.session->handles, *loaded, HandleKind::kModel);
    ASSERT_TRUE(queues_->submit(**queues_->unit(0, NRTA_XU_COMPUTE, 0), std::move(request)));
    const auto late = queues_->wait_for_executions(*sample_.core, std::chrono::seconds(0));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().status, NRT_TIMEOUT);
    EXPECT_EQ(late.error().sentence,
              "device 0 core 0: none of the 1 executions that were scheduled before has completed "
              "within 0 s (2 x NEURON_RT_EXEC_TIMEOUT)");
  }
  EXPECT_TRUE(queues_->wait_for_executions(*sample_.core, std::chrono::seconds(20)));
}

TEST(AsyncWorkers, PerformWhatIsReadyAndNothingAfterTheyWereStopped) {
  test::FakeMachine machine;
  const auto core = machine.core();
  AsyncUnit first(*core, NRTA_XU_TENSOR_READ, 0, 0, 0, 2);
  AsyncUnit second(*core, NRTA_XU_TENSOR_READ, 1, 1, 0, 2);
  std::mutex mutex;
  std::condition_variable changed;
  std::map<AsyncUnit*, int> performed;
  AsyncWorkers workers(2, [&](AsyncUnit& unit) {
    const std::lock_guard lock(mutex);
    changed.notify_all();
    return ++performed[&unit] < 3;  // comes twice more
  });
  ASSERT_TRUE(workers.start());
  workers.ready(first);
  workers.ready(second);
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] {
      return performed[&first] == 3 && performed[&second] == 3;
    }));
  }
  workers.stop();
  workers.ready(first);
  EXPECT_TRUE(workers.others_wait());
  EXPECT_EQ(performed[&first], 3);
}

}  // namespace
}  // namespace neuron::runtime
