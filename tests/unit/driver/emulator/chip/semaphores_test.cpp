// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/semaphores.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

uint64_t cell(uint64_t alias, unsigned index) { return Machine::kSemaphores + alias + 4 * index; }

TEST(SemaphoreBlock, AliasesSetIncrementDecrementAndRead) {
  Machine m;
  m.write(cell(NEURON_SEM_BLOCK_SET, 255), 40);
  m.write(cell(NEURON_SEM_BLOCK_INC, 255), 5);
  m.write(cell(NEURON_SEM_BLOCK_DEC, 255), 3);
  EXPECT_EQ(m.read(cell(NEURON_SEM_BLOCK_READ, 255)), 42u);
  EXPECT_EQ(m.semaphores.semaphore(255), 42u);
  EXPECT_EQ(m.semaphores.semaphore(254), 0u);
  ASSERT_EQ(m.listener.changes.size(), 3u);
  EXPECT_EQ(m.listener.changes[2].before, 45u);
  EXPECT_EQ(m.listener.changes[2].after, 42u);
}

TEST(SemaphoreBlock, KeepsItsValueWhenAChangeWouldLeaveTheRange) {
  Machine m;
  m.write(cell(NEURON_SEM_BLOCK_SET, 9), NEURON_SEMAPHORE_MAX);
  m.write(cell(NEURON_SEM_BLOCK_INC, 9), 1);
  m.write(cell(NEURON_SEM_BLOCK_SET, 9), 0x80000000u);
  EXPECT_EQ(m.semaphores.semaphore(9), static_cast<uint32_t>(NEURON_SEMAPHORE_MAX));
  m.write(cell(NEURON_SEM_BLOCK_SET, 9), 2);
  m.write(cell(NEURON_SEM_BLOCK_DEC, 9), 3);
  m.write(cell(NEURON_SEM_BLOCK_INC, 9), 0xFFFFFFFFu);
  EXPECT_EQ(m.semaphores.semaphore(9), 2u);
  EXPECT_EQ(m.listener.refused,
            (std::vector{NEURON_FAULT_SEM_OVERFLOW, NEURON_FAULT_SEM_OVERFLOW,
                         NEURON_FAULT_SEM_UNDERFLOW, NEURON_FAULT_SEM_OVERFLOW}));
}

TEST(SemaphoreBlock, RefusesToSetASetEventAndToClearAClearOne) {
  Machine m;
  const uint64_t event = cell(NEURON_SEM_BLOCK_EVENT, 3);
  m.write(event, 0);
  m.write(event, 1);
  m.write(event, 1);
  EXPECT_EQ(m.read(event), 1u);
  m.write(event, 0);
  EXPECT_EQ(m.read(event), 0u);
  EXPECT_EQ(m.listener.refused,
            (std::vector{NEURON_FAULT_EVENT_DOUBLE, NEURON_FAULT_EVENT_DOUBLE}));
  EXPECT_TRUE(m.listener.changes.front().event);
}

TEST(SemaphoreBlock, HasNoCellsBetweenEventsAndSemaphoresAndNoWritableReadAlias) {
  Machine m;
  uint32_t value = 0;
  EXPECT_FALSE(m.bus.read32(cell(NEURON_SEM_BLOCK_EVENT, 256), value, Access{}));
  EXPECT_FALSE(m.bus.write32(cell(NEURON_SEM_BLOCK_EVENT, 256), 1, Access{}));
  EXPECT_FALSE(m.bus.write32(cell(NEURON_SEM_BLOCK_READ, 0), 1, Access{}));
  EXPECT_TRUE(m.listener.changes.empty());
}

TEST(SemaphoreBlock, EachUpdateOperationMeansWhatTheInstructionSetSays) {
  SemaphoreBlock block;
  EXPECT_EQ(block.change(NEURON_UPDATE_INC, 1, 77), NEURON_FAULT_NONE);
  EXPECT_EQ(block.semaphore(1), 1u);
  EXPECT_EQ(block.change_exclusive(NEURON_UPDATE_ADD, 1, 9), NEURON_FAULT_NONE);
  EXPECT_EQ(block.change_exclusive(NEURON_UPDATE_DEC, 1, 77), NEURON_FAULT_NONE);
  EXPECT_EQ(block.change(NEURON_UPDATE_SUB, 1, 4), NEURON_FAULT_NONE);
  EXPECT_EQ(block.semaphore(1), 5u);
  EXPECT_EQ(block.change_exclusive(NEURON_UPDATE_WRITE, 1, 3), NEURON_FAULT_NONE);
  EXPECT_EQ(block.change(NEURON_UPDATE_NONE, 1, 9), NEURON_FAULT_NONE);
  EXPECT_EQ(block.semaphore(1), 3u);
  EXPECT_EQ(block.change_exclusive(NEURON_UPDATE_EVENT_SET, 1, 0), NEURON_FAULT_NONE);
  EXPECT_EQ(block.event(1), 1u);
  EXPECT_EQ(block.change_exclusive(NEURON_UPDATE_EVENT_SET, 1, 0), NEURON_FAULT_EVENT_DOUBLE);
  EXPECT_EQ(block.change(NEURON_UPDATE_EVENT_CLEAR, 1, 0), NEURON_FAULT_NONE);
  EXPECT_EQ(block.semaphore(1), 3u);
  block.reset();
  EXPECT_EQ(block.semaphore(1), 0u);
}

TEST(SemaphoreBlock, LosesNoIncrementOfConcurrentWriters) {
  SemaphoreBlock block;
  const auto count = [&block] {
    for (int i = 0; i < 20000; ++i) block.change(NEURON_UPDATE_INC, 200, 0);
  };
  std::thread other(count);
  count();
  other.join();
  EXPECT_EQ(block.semaphore(200), 40000u);
}

}  // namespace
}  // namespace neuron::chip
