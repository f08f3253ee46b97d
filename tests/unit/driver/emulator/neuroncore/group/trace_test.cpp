// SPDX-License-Identifier: Apache-2.0
// What the core records for profiles: waits, transfers, who changed a semaphore.
#include <thread>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr uint64_t kUpdates = kTrace + 6 * kRingBytes, kTransfers = kTrace + 9 * kRingBytes;

unsigned kind(const neuron_notification& n) { return n.word >> NEURON_NW_KIND_SHIFT & 15; }
unsigned engine(const neuron_notification& n) { return n.word >> NEURON_NW_ENGINE_SHIFT & 15; }

class Trace : public CoreMachine {
 protected:
  void trace_all() {
    for (unsigned e = 0; e < 5; ++e) {
      set_up_ring(e, kTrace + e * kRingBytes);
      set(e, NEURON_ENG_MODE, 2);
    }
    set_up_ring(NEURON_NQ_SLOT_SEMAPHORE, kUpdates);
    set_up_ring(NEURON_NQ_SLOT_TRANSFER, kTransfers);
  }
};

TEST_F(Trace, AWaitIsRecordedBeforeItsInstructionWithTheSemaphoreThatHeldLast) {
  trace_all();
  // Pool releases semaphore 20 at once and 21 three instructions later.
  Instruction early = inst(NEURON_OP_EVENT);
  early.update[0] = update(NEURON_UPDATE_INC, 20);
  Instruction late = inst(NEURON_OP_EVENT);
  late.update[0] = update(NEURON_UPDATE_INC, 21);
  Instruction waits = inst(NEURON_OP_EVENT);
  waits.wait[0] = wait_ge(21, 1);
  waits.wait[1] = wait_ge(20, 1);
  load(kSp, {waits, inst(NEURON_OP_HALT)});
  load(kPool, {early, mov(1, 1), mov(1, 1), late, inst(NEURON_OP_HALT)});
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);

  const neuron_notification wait = notification(kTrace + kSp * kRingBytes, 0);
  EXPECT_EQ(kind(wait), unsigned{NEURON_NK_WAIT});
  EXPECT_EQ(wait.pc, 0u);
  EXPECT_EQ(wait.info[0], 21u);
  const neuron_notification trace = notification(kTrace + kSp * kRingBytes, 1);
  EXPECT_EQ(kind(trace), unsigned{NEURON_NK_TRACE});
  EXPECT_EQ(wait.time + trace.info[0], trace.time) << "it begins when the wait ends";
  EXPECT_EQ(wait.info[1], trace.info[1]);

  const neuron_notification first = notification(kUpdates, 0);
  const neuron_notification second = notification(kUpdates, 1);
  EXPECT_EQ(kind(first), unsigned{NEURON_NK_SEMAPHORE});
  EXPECT_EQ(first.info[0], 20u);
  EXPECT_EQ(second.info[0], 21u);
  EXPECT_EQ(engine(second), kPool);
  EXPECT_EQ(second.pc, 3u);
  EXPECT_EQ(wait.time - second.time, 50'000u) << "an update takes 50 ns to reach a waiter";
}

TEST_F(Trace, AnInstructionThatDoesNotWaitHasNoWaitInFrontOfIt) {
  trace_all();
  load_and_run(kSp, {mov(1, 1), inst(NEURON_OP_HALT)});
  EXPECT_EQ(kind(notification(kTrace + kSp * kRingBytes, 0)), unsigned{NEURON_NK_TRACE});
}

TEST_F(Trace, ATransferIsRecordedWithItsTriggerItsPlacesAndItsBytes) {
  trace_all();
  set_up_queue(2, 1);
  std::memset(memory(kData, 4096), 1, 4096);
  const uint32_t one = 1;
  std::memcpy(memory(kData + 0x10000, 4), &one, 4);
  add_copy(2, 1, 0, kData, sbuf_address(0, 0), 2048);
  add_copy(2, 1, 1, kData + 2048, sbuf_address(1, 0), 2048, true);
  add_copy(2, 1, 2, kData + 0x10000, semaphore_increment(22), 4);
  Instruction trigger_it = trigger(1, 1 << 2, 3);
  trigger_it.debug = 17;
  Instruction done = inst(NEURON_OP_EVENT);
  done.wait[0] = wait_ge(22, 1);
  load_and_run(kSp, {mov(1, 1), trigger_it, done, inst(NEURON_OP_HALT)});

  const neuron_notification transfer = notification(kTransfers, 0);
  ASSERT_EQ(kind(transfer), unsigned{NEURON_NK_TRANSFER});
  EXPECT_EQ(engine(transfer), kSp);
  EXPECT_EQ(transfer.pc, 1u);
  EXPECT_EQ(transfer.debug, 17u);
  EXPECT_EQ(transfer.word >> NEURON_NW_OPCODE_SHIFT & 0xFFF, unsigned{NEURON_OP_DMA_TRIGGER});
  EXPECT_EQ(transfer.word >> NEURON_NW_CODE_SHIFT & 0xFF, 2u)
      << "the update of the semaphore is no packet of data";
  EXPECT_EQ(transfer.info[0] & 0xFFFF, 2u << 8 | 1u);
  EXPECT_EQ(transfer.info[0] >> 16,
            NEURON_PLACE_HBM | NEURON_PLACE_CORE << NEURON_PLACE_WRITE_SHIFT)
      << "the word of the semaphore comes from HBM and counts for neither side";
  EXPECT_EQ(transfer.info[1], 4100u);
  EXPECT_GT(transfer.info[2], 0u);
  const neuron_notification update = notification(kUpdates, 0);
  EXPECT_EQ(engine(update), unsigned{NEURON_ENGINE_DMA});
  EXPECT_EQ(update.pc, 2u << 8 | 1u) << "the queue that changed it";
  EXPECT_EQ(update.time, transfer.time);
  EXPECT_EQ(notification(kTransfers, 1).word, 0u);
}

// Both transfers are in the queue before the first one begins.
TEST_F(Trace, TransfersOfTwoTriggersInOneQueueAreEachRecordedWithTheirOwn) {
  trace_all();
  set_up_queue(2, 1);
  const uint32_t one = 1;
  std::memcpy(memory(kData + 0x10000, 4), &one, 4);
  std::memset(memory(kData, 4096), 1, 4096);
  for (unsigned n = 0; n < 2; ++n) {
    add_copy(2, 1, 2 * n, kData + n * 2048, sbuf_address(n, 0), 2048);
    add_copy(2, 1, 2 * n + 1, kData + 0x10000, semaphore_increment(22), 4);
  }
  Instruction done = inst(NEURON_OP_EVENT);
  done.wait[0] = wait_ge(22, 2);
  load_and_run(kSp, {trigger(1, 1 << 2, 2), trigger(1, 1 << 2, 2), done, inst(NEURON_OP_HALT)});
  const neuron_notification first = notification(kTransfers, 0);
  const neuron_notification second = notification(kTransfers, 1);
  ASSERT_EQ(kind(second), unsigned{NEURON_NK_TRANSFER});
  EXPECT_EQ(first.pc, 0u);
  EXPECT_EQ(second.pc, 1u);
  EXPECT_LT(notification(kTrace + kSp * kRingBytes, 1).time, first.time)
      << "the second doorbell was rung while the first transfer was in flight";
}

TEST_F(Trace, EntriesOfAProgramThatWaitsForEverAreAllThereInTheirOrder) {
  trace_all();
  Instruction waits = inst(NEURON_OP_EVENT);
  waits.wait[0] = wait_ge(21, 1);
  std::vector<Instruction> program(70, mov(1, 1));  // more than are posted at a time
  program.push_back(waits);
  load(kSp, program);
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  for (unsigned n = 0; n < 70; ++n) {
    const neuron_notification entry = notification(kTrace + kSp * kRingBytes, n);
    ASSERT_EQ(kind(entry), unsigned{NEURON_NK_TRACE}) << n;
    EXPECT_EQ(entry.pc, n);
  }
  EXPECT_EQ(notification(kTrace + kSp * kRingBytes, 70).word, 0u);
}

TEST_F(Trace, EntriesThatFindNoRoomAreCountedAndTheStatusOfTheirEngineSaysSo) {
  trace_all();
  std::vector<Instruction> program(200, mov(1, 1));
  program.push_back(inst(NEURON_OP_HALT));
  load_and_run(kSp, program);
  load_and_run(kPool, {mov(1, 1), inst(NEURON_OP_HALT)});
  const uint64_t queue = NEURON_V2_CORE_NOTIFICATION(0) + NEURON_NQ_BASE(kSp);
  EXPECT_EQ(core_register(queue + NEURON_NQ_DROPPED),
            201 - (kRingBytes / NEURON_NOTIFICATION_BYTES - 1));
  constexpr uint32_t kDropped = 1u << 10;
  EXPECT_NE(get(kSp, NEURON_ENG_STATUS) & kDropped, 0u);
  EXPECT_EQ(get(kPool, NEURON_ENG_STATUS) & kDropped, 0u);
}

TEST_F(Trace, EntriesAreThereWhenTheRecordOfAFaultIs) {
  trace_all();
  Instruction divides = alu(1, 1, NEURON_ALU_DIV, 0);
  load(kSp, {mov(1, 1), mov(2, 2), divides});
  std::atomic<bool> ended = false;
  std::jthread runner([&] {
    run();
    ended.store(true);
  });
  while (completions(kSp) == 0 && !ended.load()) std::this_thread::yield();
  ASSERT_NE(completions(kSp), 0u);
  EXPECT_EQ(notification(kTrace + kSp * kRingBytes, 1).pc, 1u);
}

// As a host reads a ring while the program that fills it goes on.
TEST_F(Trace, EntriesOfAProgramThatDoesNotEndAreSeenWhileItRuns) {
  trace_all();
  load(kSp, {mov(1, 1), branch(-1)});
  std::atomic<bool> ended = false;
  std::jthread runner([&] {
    run(5000);
    ended.store(true);
  });
  auto* first = reinterpret_cast<uint32_t*>(
      memory(kTrace + kSp * kRingBytes + offsetof(neuron_notification, word), 4));
  const std::atomic_ref<uint32_t> word(*first);
  while (word.load(std::memory_order_acquire) == 0 && !ended.load()) std::this_thread::yield();
  EXPECT_FALSE(ended.load());
  EXPECT_NE(word.load(std::memory_order_acquire), 0u);
  chip_->halt(1);
}

class TraceOfGeneration3 : public CoreMachine {
 protected:
  void SetUp() override { create(3); }
  void set(uint32_t at, uint32_t value) {
    set_core(NEURON_V3_CORE_WINDOW(0) + NEURON_CORE_ENGINE(kDve) + at, value);
  }
  static constexpr unsigned kDve = NEURON_ENGINE_DVE;
};

TEST_F(TraceOfGeneration3, TellsThePerformanceModeOfEachInstruction) {
  const uint64_t queue = NEURON_V3_CORE_NOTIFICATION(0) + NEURON_NQ_BASE(kDve);
  set_core(queue + NEURON_NQ_ADDRESS_LO, static_cast<uint32_t>(kTrace));
  set_core(queue + NEURON_NQ_ADDRESS_HI, 0);
  set_core(queue + NEURON_NQ_SIZE, kRingBytes);
  Instruction fill = inst(NEURON_OP_MEMSET), copy = inst(NEURON_OP_TENSOR_COPY);
  fill.dst = copy.src0 = sbuf(128, 0, NEURON_DTYPE_BF16, 1024);
  copy.dst = sbuf(128, 0x1000, NEURON_DTYPE_BF16, 1024);
  Instruction apart = copy, wide = copy;
  apart.dst = tile(NEURON_SPACE_SBUF, 0, 128, 0x2000, NEURON_DTYPE_BF16, {1024}, {2});
  wide.dst = sbuf(128, 0x4000, NEURON_DTYPE_F32, 1024);
  place(kDve, {fill, copy, apart, wide, inst(NEURON_OP_HALT)});
  set(NEURON_ENG_MODE, 2);
  set(NEURON_ENG_PROG_LO, static_cast<uint32_t>(kCode + kDve * 0x10000));
  set(NEURON_ENG_PROG_COUNT, 5);
  set(NEURON_ENG_CONTROL, NEURON_CMD_START);
  ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  constexpr unsigned kModes[] = {0, 4, 2, 0};
  for (unsigned n = 0; n < 4; ++n) {
    EXPECT_EQ(notification(kTrace, n).info[2], 1024u << 8 | kModes[n]) << n;
  }
  EXPECT_EQ(notification(kTrace, 4).info[2], 0u) << "halt has no elements";
}

}  // namespace
}  // namespace neuron::core
