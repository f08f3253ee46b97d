// SPDX-License-Identifier: Apache-2.0
// Registers, doorbell rules and states of a UDMA engine.
#include <gtest/gtest.h>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

TEST(UdmaRegisters, ReadBackWhatADriverStores) {
  Machine m;
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_CFG), NEURON_UDMAQ_CFG_RESET);
  for (const uint32_t offset : {0x118u, 0x254u, 0x2038Cu, 0x38000u, 0x3A300u, 0x3AB04u, 0x3C7FCu}) {
    m.write(m.base() + offset, offset * 3);
    EXPECT_EQ(m.read(m.base() + offset), offset * 3);
  }
  EXPECT_EQ(m.read(m.base() + 0x3B460), 0u);
  m.set(15, true, NEURON_UDMAQ_BASE_HI, 0x1000);
  EXPECT_EQ(m.get(15, true, NEURON_UDMAQ_BASE_HI), 0x1000u);
  EXPECT_EQ(m.get(15, false, NEURON_UDMAQ_BASE_HI), 0u);
  m.set(4, false, NEURON_UDMAQ_LENGTH, 0xFF000040);
  EXPECT_EQ(m.get(4, false, NEURON_UDMAQ_LENGTH), 0x40u);
  EXPECT_EQ(m.errors.errors(), 0u);
}

TEST(UdmaRegisters, AreLiveOutOfReset) {
  Machine m;
  EXPECT_EQ(m.read(m.base() + NEURON_UDMA_STATE), NEURON_UDMA_STATE_NORMAL);
  EXPECT_EQ(m.read(m.base() + NEURON_UDMA_S2M + NEURON_UDMA_STATE), NEURON_UDMA_STATE_NORMAL);
  EXPECT_EQ(m.get(0, true, NEURON_UDMAQ_HEAD), 1u << 30);
}

TEST(UdmaRegisters, RefuseADoorbellOfAQueueThatIsNotSetUp) {
  Machine m;
  m.ring(0, 1, 0);
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_RING);
  EXPECT_EQ(m.get(0, true, NEURON_UDMAQ_TAIL), 1u << 30);
}

TEST(UdmaRegisters, HoldAPausedQueueUntilItIsEnabled) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 64, 1);
  m.set(0, false, NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RESET);
  m.copy(0, kFrom, kTo, 64);
  m.ring(0, 1, 1);
  EXPECT_FALSE(m.equal(kFrom, kTo, 64));
  m.set(0, false, NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING);
  EXPECT_TRUE(m.equal(kFrom, kTo, 64));
}

TEST(UdmaRegisters, StopAllQueuesInAbortAndGoOnInNormalState) {
  Machine m(32);
  m.init(0, 64);
  m.fill(kFrom, 64, 1);
  for (const uint32_t change : {2u, 4u}) {
    m.reset(0, false);
    m.reset(0, true);
    std::memset(m.memory(kTo, 64), 0, 64);
    m.write(m.base() + NEURON_UDMA_CHANGE_STATE, change);
    EXPECT_EQ(m.read(m.base() + NEURON_UDMA_STATE), change == 4 ? NEURON_UDMA_STATE_ABORT : 0u);
    m.copy(0, kFrom, kTo, 64);
    m.ring(0, 1, 1);
    EXPECT_FALSE(m.equal(kFrom, kTo, 64));
    m.write(m.base() + NEURON_UDMA_CHANGE_STATE, 1);
    EXPECT_TRUE(m.equal(kFrom, kTo, 64));
  }
}

TEST(UdmaRegisters, KeepHeadAndTailWhenTheBaseIsWritten) {
  Machine m(32);
  m.init(0, 64);
  m.copy(0, kFrom, kTo, 64);
  m.ring(0, 1, 1);
  m.set(0, false, NEURON_UDMAQ_BASE_LO, 0x300000);
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_HEAD), 1u | 1u << 30);
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_TAIL), 1u | 1u << 30);
}

TEST(UdmaRegisters, StartAfreshWhenTheRingShrinksBelowItsIndexes) {
  Machine m(32);
  m.init(0, 64);
  for (uint32_t i = 0; i < 40; ++i) m.copy(i, kFrom, kTo, 64);
  m.ring(0, 40, 40);
  m.set(0, false, NEURON_UDMAQ_LENGTH, 32);
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_HEAD), 1u << 30);
}

TEST(UdmaDoorbell, OfAnEngineIsLeftToTheExecutionGroup) {
  Machine m(3);
  m.init(5, 64);
  m.fill(kFrom, 64, 1);
  m.copy(0, kFrom, kTo, 64);
  m.ring(5, 1, 1, Origin::kEngine);
  EXPECT_FALSE(m.equal(kFrom, kTo, 64));
  ASSERT_EQ(m.listener.rung.size(), 1u);
  EXPECT_EQ(m.listener.rung[0].engine, 3u);
  EXPECT_EQ(m.listener.rung[0].queue, 5u);
  EXPECT_TRUE(m.engine.has_work(5));
  EXPECT_EQ(m.engine.work_mask(), 1u << 5);
  EXPECT_FALSE(m.engine.execute_packet(5, Access{}));
  EXPECT_TRUE(m.equal(kFrom, kTo, 64));
  EXPECT_FALSE(m.engine.has_work(5));
}

TEST(UdmaDoorbell, OfADescriptorIsLeftToTheGroupToo) {
  Machine m(3);
  m.init(5, 64);
  m.init(6, 64, 0x300000, 0x400000);
  const uint32_t one = 1;
  std::memcpy(m.memory(kFrom, 4), &one, 4);
  m.descriptor(0x300000, 0, 4 | NEURON_DESC_FIRST | NEURON_DESC_LAST, NEURON_META_DEFAULT, kFrom);
  m.descriptor(0x400000, 0, 4, 0, kTo);
  m.copy(0, kFrom, m.queue_register(6, true, NEURON_UDMAQ_TAIL_INC), 4);
  m.copy(1, kFrom, m.queue_register(6, false, NEURON_UDMAQ_TAIL_INC), 4);
  m.ring(5, 2, 2);
  ASSERT_EQ(m.listener.rung.size(), 1u);
  EXPECT_EQ(m.listener.rung[0].queue, 6u);
  EXPECT_EQ(m.listener.rung[0].access.origin, Origin::kDma);
  EXPECT_EQ(m.read(kTo), 0u);
}

TEST(UdmaDoorbell, OfADescriptorOnItsOwnQueueEndsNevertheless) {
  Machine m(32);
  m.init(0, 64);
  const uint32_t one = 1;
  std::memcpy(m.memory(kFrom, 4), &one, 4);
  for (uint32_t i = 0; i < 64; ++i) {
    m.copy(i, kFrom, m.queue_register(0, i % 2 == 0, NEURON_UDMAQ_TAIL_INC), 4);
  }
  m.ring(0, 2, 2);
  EXPECT_EQ(m.listener.faults.size(), 2u);  // the host's engine is not rung by descriptors
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_HEAD), 2u | 1u << 30);
}

TEST(UdmaDoorbell, OfAnEngineIsRefusedOnTheHostsEngines) {
  Machine m(33);
  m.init(0, 64);
  m.ring(0, 1, 0, Origin::kEngine);
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_RING);
}

TEST(UdmaDoorbell, OfAnEngineIsRefusedAfterAResetByTheHostUntilTheNextStart) {
  Machine m(0);
  m.init(1, 64);
  m.reset(1, true);
  m.ring(1, 1, 0, Origin::kEngine);
  ASSERT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.listener.faults[0].code, NEURON_FAULT_DMA_RING);
  m.ring(1, 1, 0);  // the host may
  EXPECT_EQ(m.listener.faults.size(), 1u);
  m.engine.accept_engine_doorbells();
  m.ring(1, 1, 0, Origin::kEngine);
  EXPECT_EQ(m.listener.faults.size(), 1u);
  EXPECT_EQ(m.get(1, true, NEURON_UDMAQ_TAIL), 2u | 1u << 30);
}

TEST(UdmaDoorbell, IsAcceptedAfterAnEngineHasRewoundTheRing) {
  Machine m(0);
  m.init(1, 64);
  m.copy(0, kFrom, kTo, 64);
  m.ring(1, 1, 1);
  m.reset(1, true, Origin::kEngine);
  m.reset(1, false, Origin::kEngine);
  EXPECT_EQ(m.get(1, false, NEURON_UDMAQ_HEAD), 1u << 30);
  m.ring(1, 1, 1, Origin::kEngine);
  EXPECT_TRUE(m.listener.faults.empty());
  EXPECT_TRUE(m.engine.has_work(1));
}

TEST(UdmaRuns, EndWithTheFirstPacketThatWritesRegisters) {
  Machine m(0);
  m.init(0, 64);
  const uint32_t one = 1;
  std::memcpy(m.memory(kFrom, 4), &one, 4);
  for (uint32_t i = 0; i < 5; ++i) m.copy(i, kFrom, kTo + 1000 * i, 500);
  m.copy(5, kFrom, Machine::kSemaphores + NEURON_SEM_BLOCK_INC + 80, 4);
  m.copy(6, kFrom, kTo, 8);
  m.ring(0, 7, 7, Origin::kEngine);
  const DmaRun run = m.engine.next_run(0, 1000);
  EXPECT_EQ(run.packets, 6u);
  EXPECT_EQ(run.time_bytes, 2504u);
  // The write of the semaphore counts as much as any descriptor.
  EXPECT_EQ(m.engine.next_run(0, 1000, 300).time_bytes, 2800u);
  EXPECT_EQ(m.engine.next_run(0, 1000, 1360).time_bytes, 6u * 1360);
  EXPECT_EQ(run.bytes, 2504u);
  EXPECT_TRUE(run.registers);
  EXPECT_EQ(m.engine.next_run(0, 3).packets, 3u);
  EXPECT_FALSE(m.engine.next_run(0, 3).registers);
  Access group;
  group.time = 777;
  EXPECT_FALSE(m.engine.execute_run(0, 6, group));
  EXPECT_EQ(m.listener.times, std::vector<ModelTime>{777});
  EXPECT_EQ(m.semaphores.semaphore(20), 1u);
  EXPECT_EQ(m.engine.next_run(0, 1000).packets, 1u);
  EXPECT_TRUE(m.engine.has_work(0));
}

TEST(UdmaRuns, MeetAMalformedPacketAtItsOwnTime) {
  Machine m(0);
  m.init(0, 64);
  m.copy(0, kFrom, kTo, 64);
  m.source(1, kFrom, 64, NEURON_DESC_LAST);
  m.destination(1, kTo, 64);
  m.ring(0, 2, 2, Origin::kEngine);
  EXPECT_EQ(m.engine.next_run(0, 10).packets, 1u);
  EXPECT_FALSE(m.engine.execute_run(0, 1, Access{}));
  EXPECT_EQ(m.engine.next_run(0, 10).packets, 1u);
  EXPECT_EQ(m.engine.execute_run(0, 1, Access{}).code, NEURON_FAULT_DMA_DESC);
  EXPECT_FALSE(m.engine.has_work(0));
  EXPECT_EQ(m.listener.faults.size(), 1u);
}

TEST(UdmaRuns, AreEmptyWhileThePacketIsIncomplete) {
  Machine m(0);
  m.init(0, 64);
  m.source(0, kFrom, 64, NEURON_DESC_FIRST);
  m.source(1, kFrom, 64, NEURON_DESC_LAST);
  m.destination(0, kTo, 128);
  m.ring(0, 1, 1, Origin::kEngine);
  EXPECT_EQ(m.engine.next_run(0, 10).packets, 0u);
  EXPECT_FALSE(m.engine.execute_run(0, 10, Access{}));
  m.ring(0, 0, 1, Origin::kEngine);
  EXPECT_EQ(m.engine.next_run(0, 10).packets, 1u);
}

TEST(UdmaRuns, ExecuteNothingAfterAReset) {
  Machine m(0);
  m.init(0, 64);
  m.fill(kFrom, 64, 1);
  m.copy(0, kFrom, kTo, 64);
  m.ring(0, 1, 1, Origin::kEngine);
  m.engine.reset();
  EXPECT_FALSE(m.engine.execute_run(0, 1, Access{}));
  EXPECT_FALSE(m.equal(kFrom, kTo, 64));
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_BASE_LO), 0u);
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_CFG), NEURON_UDMAQ_CFG_RESET);
}

TEST(UdmaRuns, KeepRingsAndForgetAbortsWhenOnlyAbortsAreCleared) {
  Machine m(32);
  m.init(0, 64);
  m.source(0, kFrom, 64, 0);
  m.destination(0, kTo, 64);
  m.ring(0, 1, 1);
  EXPECT_EQ(m.read(m.base() + NEURON_UDMA_STATE), NEURON_UDMA_STATE_ABORT);
  m.engine.clear_aborts();
  EXPECT_EQ(m.read(m.base() + NEURON_UDMA_STATE), NEURON_UDMA_STATE_NORMAL);
  EXPECT_EQ(m.get(0, false, NEURON_UDMAQ_LENGTH), 64u);
}

}  // namespace
}  // namespace neuron::chip
