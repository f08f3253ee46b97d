// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/handle_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

TEST(HandleTable, AHandleTellsKindsAndTablesApartByItsBits) {
  int destroyed = 0;
  HandleTable table;
  void* handle = *table.insert(HandleKind::kTracker, std::make_unique<Counted>(destroyed));
  EXPECT_TRUE(HandleTable::is_handle(handle));
  EXPECT_FALSE(HandleTable::is_handle(&destroyed));
  EXPECT_FALSE(HandleTable::is_handle(nullptr));
  // The same slot and generation under another kind, and the next generation.
  const auto bits = reinterpret_cast<uint64_t>(handle);
  EXPECT_EQ(bits >> 56, 0x54u);
  EXPECT_EQ(table.pin(reinterpret_cast<void*>(bits + (1ull << 24)), HandleKind::kTracker), nullptr);
  EXPECT_FALSE(table.remove(reinterpret_cast<void*>(bits + 1), HandleKind::kTracker));
  EXPECT_FALSE(table.remove(handle, HandleKind::kTensor));
  EXPECT_EQ(table.live(), 1u);
}

TEST(HandleTable, DestroysModelsBeforeTensorSetsAndTensors) {
  std::string order;
  struct Named {
    Named(std::string& order, char name) : order_(order), name_(name) {}
    ~Named() { order_ += name_; }
    std::string& order_;
    char name_;
  };
  HandleTable table;
  for (const auto& [kind, name] :
       {std::pair{HandleKind::kTracker, 'e'}, std::pair{HandleKind::kTensor, 't'},
        std::pair{HandleKind::kTensorSet, 's'}, std::pair{HandleKind::kModel, 'm'},
        std::pair{HandleKind::kCollective, 'c'}}) {
    ASSERT_TRUE(table.insert(kind, std::make_unique<Named>(order, name)));
  }
  table.clear();
  EXPECT_EQ(order, "cmste");
  EXPECT_EQ(table.live(), 0u);
  ASSERT_TRUE(table.insert(HandleKind::kTensor, std::make_unique<Named>(order, 'x')))
      << "an emptied table can be used again";
}

TEST(HandleTable, GoesOnInASecondChunk) {
  int destroyed = 0;
  HandleTable table;
  std::vector<void*> handles;
  for (uint32_t i = 0; i <= HandleTable::kChunkSlots; ++i) {
    handles.push_back(*table.insert(HandleKind::kTensor, std::make_unique<Counted>(destroyed)));
  }
  EXPECT_EQ(table.live(), HandleTable::kChunkSlots + 1);
  for (void* handle : handles) {
    ASSERT_NE(table.pin(handle, HandleKind::kTensor), nullptr);
    table.unpin(handle);
    EXPECT_TRUE(table.remove(handle, HandleKind::kTensor));
  }
  EXPECT_EQ(destroyed, static_cast<int>(HandleTable::kChunkSlots + 1));
  EXPECT_EQ(table.live(), 0u);
}

TEST(HandleTable, RefusesTheHandleBehindTheLast) {
  HandleTable table;
  const uint32_t most = HandleTable::kChunks * HandleTable::kChunkSlots;
  for (uint32_t i = 0; i < most; ++i) {
    ASSERT_TRUE(table.insert(HandleKind::kTensor, std::make_unique<char>()));
  }
  const auto refused = table.insert(HandleKind::kTensor, std::make_unique<char>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_RESOURCE);
  EXPECT_EQ(refused.error().sentence,
            "1048576 tensors, tensor sets and models exist, which is the most a process may have; "
            "free some");
}

TEST(Pin, KeepsItsObjectWhereverItIsMoved) {
  int destroyed = 0;
  HandleTable table;
  void* handle = *table.insert(HandleKind::kTensor, std::make_unique<Counted>(destroyed));
  Pin<Counted> other;
  EXPECT_FALSE(other);
  {
    Pin<Counted> pin(table, handle, HandleKind::kTensor);
    ASSERT_TRUE(pin);
    other = std::move(pin);
  }
  table.remove(handle, HandleKind::kTensor);
  EXPECT_EQ(destroyed, 0);
  { const Pin<Counted> last(std::move(other)); }
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace neuron::runtime
