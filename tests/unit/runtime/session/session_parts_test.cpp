// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "hw/fault.h"
#include "runtime/device/fair_lock.h"
#include "runtime/exec/fault_report.h"
#include "runtime/observe/last_error.h"
#include "runtime/session/configuration.h"
#include "runtime/session/handle_table.h"
#include "runtime/session/instance.h"
#include "runtime/tensor/completion.h"
#include "runtime/tensor/mapping_table.h"

namespace neuron::runtime {
namespace {

struct Counted {
  explicit Counted(int& destroyed) : destroyed_(destroyed) {}
  ~Counted() { ++destroyed_; }
  int& destroyed_;
};

TEST(HandleTable, FindsWhatWasInsertedUntilItIsRemoved) {
  int destroyed = 0;
  HandleTable table;
  const auto handle = table.insert(HandleKind::kTensor, std::make_unique<Counted>(destroyed));
  ASSERT_TRUE(handle);
  EXPECT_NE(table.pin(*handle, HandleKind::kTensor), nullptr);
  EXPECT_EQ(table.pin(*handle, HandleKind::kModel), nullptr) << "another kind";
  EXPECT_TRUE(table.remove(*handle, HandleKind::kTensor));
  EXPECT_FALSE(table.remove(*handle, HandleKind::kTensor));
  EXPECT_EQ(destroyed, 0) << "a pinned object stays";
  table.unpin(*handle);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(table.pin(*handle, HandleKind::kTensor), nullptr);
}

TEST(HandleTable, GivesASlotAgainUnderAnotherHandle) {
  int destroyed = 0;
  HandleTable table;
  void* first = *table.insert(HandleKind::kModel, std::make_unique<Counted>(destroyed));
  table.remove(first, HandleKind::kModel);
  void* second = *table.insert(HandleKind::kModel, std::make_unique<Counted>(destroyed));
  EXPECT_NE(first, second);
  EXPECT_EQ(table.pin(first, HandleKind::kModel), nullptr);
  EXPECT_EQ(table.live(), 1u);
  table.clear();
  EXPECT_EQ(destroyed, 2);
}

TEST(HandleTable, ForeignPointersAreNone) {
  HandleTable table;
  int local = 0;
  EXPECT_EQ(table.pin(&local, HandleKind::kTensor), nullptr);
  EXPECT_EQ(table.pin(nullptr, HandleKind::kTensor), nullptr);
  EXPECT_EQ(table.pin(reinterpret_cast<void*>(~0ull), HandleKind::kTensor), nullptr);
  EXPECT_EQ(table.pin(reinterpret_cast<void*>(0x5100000000FFFFFFull), HandleKind::kTensor),
            nullptr);
}

TEST(HandleTable, RacingRemoversDestroyOnce) {
  for (int round = 0; round < 50; ++round) {
    int destroyed = 0;
    HandleTable table;
    void* handle = *table.insert(HandleKind::kTensor, std::make_unique<Counted>(destroyed));
    std::atomic<int> removed{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        Pin<Counted> pin(table, handle, HandleKind::kTensor);
        removed += table.remove(handle, HandleKind::kTensor);
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(removed, 1);
    EXPECT_EQ(destroyed, 1);
  }
}

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

TEST(MappingTable, FindsTheRangeThatHoldsAllBytes) {
  MappingTable table;
  table.add(reinterpret_cast<void*>(0x1000), 0x100);
  table.add(reinterpret_cast<void*>(0x3000), 0x100);
  EXPECT_TRUE(table.find(0x1000, 0x100));
  EXPECT_EQ(table.find(0x10FF, 1)->start, 0x1000u);
  EXPECT_FALSE(table.find(0x10FF, 2));
  EXPECT_FALSE(table.find(0xFFF, 1));
  EXPECT_FALSE(table.find(0x1000, ~0ull));
  table.remove(reinterpret_cast<void*>(0x1000));
  EXPECT_FALSE(table.find(0x1000, 1));
}

TEST(CompletionHub, WaiterSeesCountsFromBeforeAndDuringItsWait) {
  CompletionHub hub;
  CompletionCounter counter;
  hub.add(counter);
  EXPECT_TRUE(hub.wait(counter, 1, base::Deadline::after(std::chrono::seconds(0))));
  EXPECT_FALSE(hub.wait(counter, 2, base::Deadline::after(std::chrono::milliseconds(2))));
  std::thread waiter(
      [&] { EXPECT_TRUE(hub.wait(counter, 3, base::Deadline::after(std::chrono::seconds(20)))); });
  hub.add(counter);
  hub.add(counter);
  waiter.join();
}

TEST(LastError, BelongsToItsThreadAndIsCut) {
  set_last_error("mine");
  std::thread([] {
    EXPECT_STREQ(last_error(), "");
    set_last_error(std::string(10'000, 'x'));
    EXPECT_EQ(std::string(last_error()).size(), 4095u);
  }).join();
  EXPECT_STREQ(last_error(), "mine");
}

TEST(Configuration, ReadsEachVariableAndNamesAWrongOne) {
  setenv("NEURON_RT_EXEC_TIMEOUT", "7", 1);
  setenv("NEURON_OPEN_MODEL_TIME_LIMIT_US", "3", 1);
  auto configuration = read_configuration();
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->exec_timeout_s, 7u);
  EXPECT_EQ(configuration->model_time_limit_ps, 3'000'000u);
  setenv("NEURON_RT_EXEC_TIMEOUT", "soon", 1);
  configuration = read_configuration();
  ASSERT_FALSE(configuration);
  EXPECT_EQ(configuration.error().status, NRT_INVALID);
  EXPECT_NE(configuration.error().sentence.find("NEURON_RT_EXEC_TIMEOUT"), std::string::npos);
  unsetenv("NEURON_RT_EXEC_TIMEOUT");
  unsetenv("NEURON_OPEN_MODEL_TIME_LIMIT_US");
}

TEST(Instance, IsReadFromTheNameOfTheType) {
  nrt_instance_info_t info{};
  ASSERT_TRUE(parse_instance_type("embedded trn1n.32xlarge", info));
  EXPECT_EQ(info.family, static_cast<uint32_t>(NRT_INSTANCE_TRN1N));
  EXPECT_EQ(info.size, static_cast<uint32_t>(NRT_INSTANCE_SIZE_32XL));
  ASSERT_TRUE(parse_instance_type("inf2.xlarge\n", info));
  EXPECT_EQ(info.family, static_cast<uint32_t>(NRT_INSTANCE_INF2));
  EXPECT_EQ(info.size, static_cast<uint32_t>(NRT_INSTANCE_SIZE_1XL));
  EXPECT_FALSE(parse_instance_type("Standard PC (Q35)", info));
}

TEST(FaultReport, EachFaultHasItsStatus) {
  EXPECT_EQ(status_of_fault(NEURON_FAULT_BUS), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_TIME_LIMIT), NRT_TIMEOUT);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_NC_UE), NRT_EXEC_HW_ERR_NC_UE);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_HBM_UE), NRT_EXEC_HW_ERR_HBM_UE);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_HBM_UE_REPAIRABLE), NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_DMA_RING), NRT_EXEC_HW_ERR_DMA_ABORT);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_INDEX_OOB), NRT_EXEC_OOB);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_NQ_OVERFLOW), NRT_EXEC_SW_NQ_OVERFLOW);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_INTERNAL), NRT_EXEC_UNIT_UNRECOVERABLE);
  EXPECT_EQ(status_of_fault(NEURON_FAULT_NUMERIC_NAN), NRT_EXEC_COMPLETED_WITH_NUM_ERR);
}

}  // namespace
}  // namespace neuron::runtime
