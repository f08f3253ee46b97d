// SPDX-License-Identifier: Apache-2.0
// Several threads at one engine, as several processes of a host are. Meant for the thread sanitizer
// too.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

uint64_t ring_of(unsigned queue, bool s2m) {
  return 0x100000 + 0x20000 * queue + (s2m ? 0x10000 : 0);
}

// Copies `rounds` blocks through its own queue and increments its own semaphore with each.
void copy_blocks(Machine& m, unsigned queue, int rounds) {
  const uint64_t from = 0x1000000 + 0x100000 * queue;
  const uint64_t to = NEURON_V2_HBM_STRIDE + 0x100000 * queue;
  const uint32_t one = 1;
  std::memcpy(m.memory(from + 0x8000, 4), &one, 4);
  constexpr uint32_t kWhole = NEURON_DESC_FIRST | NEURON_DESC_LAST;
  for (int round = 0; round < rounds; ++round) {
    const uint32_t slot = 2 * static_cast<uint32_t>(round) % 64;
    std::memset(m.memory(from, 64), round, 64);
    m.descriptor(ring_of(queue, false), slot, 64 | kWhole, NEURON_META_DEFAULT, from);
    m.descriptor(ring_of(queue, true), slot, 64, 0, to);
    m.descriptor(ring_of(queue, false), slot + 1, 4 | kWhole, NEURON_META_DEFAULT, from + 0x8000);
    m.descriptor(ring_of(queue, true), slot + 1, 4, 0,
                 Machine::kSemaphores + NEURON_SEM_BLOCK_INC + 4 * queue);
    m.ring(queue, 2, 2);
    ASSERT_TRUE(m.equal(from, to, 64)) << "queue " << queue << " round " << round;
  }
}

TEST(UdmaThreads, QueuesOfOneEngineDoNotDisturbEachOther) {
  Machine m(1);
  m.engine.set_listener(nullptr);
  m.semaphores.set_listener(nullptr);
  for (unsigned queue = 0; queue < 3; ++queue) {
    m.init(queue, 64, ring_of(queue, false), ring_of(queue, true));
  }
  std::thread first(copy_blocks, std::ref(m), 0u, 1000);
  std::thread second(copy_blocks, std::ref(m), 1u, 1000);
  for (int i = 0; i < 1000; ++i) {
    m.reset(2, i % 2 == 0);
    (void)m.get(static_cast<unsigned>(i) % 3, true, NEURON_UDMAQ_HEAD);
    (void)m.engine.next_run(2, 10);
    (void)m.read(m.base() + NEURON_UDMA_STATE);
  }
  first.join();
  second.join();
  EXPECT_EQ(m.semaphores.semaphore(0), 1000u);
  EXPECT_EQ(m.semaphores.semaphore(1), 1000u);
  EXPECT_EQ(m.errors.errors(), 0u);
}

TEST(UdmaThreads, OneQueueServesDoorbellsOfTwoThreadsAndSurvivesResets) {
  Machine m(1);
  m.engine.set_listener(nullptr);
  m.semaphores.set_listener(nullptr);
  m.init(0, 64);
  m.fill(0x1000000, 4096, 1);
  for (uint32_t i = 0; i < 64; ++i) m.copy(i, 0x1000000, 0x2000000, 4096);
  std::atomic<bool> stop = false;
  const auto ring = [&] {
    for (int i = 0; i < 2000 && !stop; ++i) m.ring(0, 1, 1);
  };
  std::thread first(ring);
  std::thread second(ring);
  for (int i = 0; i < 200; ++i) {
    m.reset(0, false);
    m.reset(0, true);
  }
  stop = true;
  first.join();
  second.join();
  m.init(0, 64);
  m.ring(0, 64, 64);
  EXPECT_TRUE(m.equal(0x1000000, 0x2000000, 4096));
  EXPECT_EQ(m.errors.errors(NEURON_FAULT_DMA_DESC) + m.errors.errors(NEURON_FAULT_DMA_BUS), 0u);
}

TEST(NotificationThreads, NoEntryIsLostOrTorn) {
  Machine m;
  std::array<uint32_t, 3> setup = {0x400000, 0, 65536 * NEURON_NOTIFICATION_BYTES};
  for (unsigned i = 0; i < 3; ++i) {
    ASSERT_TRUE(m.errors.write(NEURON_NQ_BASE(0) + 4 * i,
                               std::as_bytes(std::span(setup)).subspan(4 * i, 4), Access{}));
  }
  const auto post = [&m](uint32_t tag) {
    for (uint32_t i = 0; i < 5000; ++i) {
      Notification n;
      n.pc = tag;
      n.debug = i;
      n.info = {tag, i, tag};
      m.errors.post(0, n);
    }
  };
  std::thread other(post, 1u);
  post(2);
  other.join();
  uint32_t next[3] = {};
  for (uint32_t i = 0; i < 10000; ++i) {
    neuron_notification n;
    std::memcpy(&n, m.memory(0x400000 + 32 * uint64_t{i}, 32), 32);
    ASSERT_TRUE(n.pc == 1 || n.pc == 2);
    ASSERT_EQ(n.info[0], n.pc);
    ASSERT_EQ(n.debug, next[n.pc]++);
  }
}

}  // namespace
}  // namespace neuron::chip
