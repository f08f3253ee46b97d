// SPDX-License-Identifier: Apache-2.0
// Classes of service of generation 4: which queue of a DMA engine is served first, in model time.
#include <array>
#include <vector>

#include "tests/unit/driver/emulator/neuroncore/generation_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr uint64_t kBulk = 0x10000, kSmall = 4096;  // bytes of a packet
// At 33 GB/s.
constexpr uint64_t kBulkTime = kBulk * 1000 / 33, kSmallTime = kSmall * 1000 / 33;
constexpr uint64_t kDescriptor = 82'000, kStart = 1'300'000, kWake = 50'000;

class ServiceClasses : public GenerationMachine {
 protected:
  // `packets` copies of a class in a queue, then one word to a semaphore of the queue.
  void fill(unsigned queue, unsigned packets, uint64_t bytes, unsigned service_class) {
    set_up_queue(0, queue);
    for (unsigned n = 0; n < packets; ++n) {
      add_packet(queue, n, kData + n * bytes, kData + 0x800000 + queue * 0x200000 + n * bytes,
                 static_cast<uint32_t>(bytes & NEURON_DESC_LENGTH_MASK), service_class);
    }
    add_packet(queue, packets, kOne, semaphore_increment(20 + queue), 4, service_class);
  }
  // When queue 1, of 4 small packets, is done, which is rung `pause` instructions behind queue 0,
  // of 20 large ones; and when queue 0 is.
  struct Times {
    uint64_t rung, small, bulk;
    bool operator==(const Times&) const = default;
  };
  Times beside_bulk(unsigned small_class, unsigned bulk_class, unsigned pause = 1) {
    begin(4);
    fill(0, 20, kBulk, bulk_class);
    fill(1, 4, kSmall, small_class);
    Instruction now = inst(NEURON_OP_TIME);
    now.flow.rd = 6;
    execute(kSp, {ring(0, 21), loop(1, 0, pause, 1, 1), inst(NEURON_OP_NOP), now, ring(1, 5),
                  time_when(21, 1, 2), time_when(20, 1, 4)});
    EXPECT_EQ(
        std::memcmp(memory(kData, 4 * kSmall), memory(kData + 0xA00000, 4 * kSmall), 4 * kSmall),
        0);
    return {register_of(kSp, 6), register_of(kSp, 2), register_of(kSp, 4)};
  }
};

TEST_F(ServiceClasses, ATransferOfALowerClassDoesNotShareTheEngineWithABulkOne) {
  const Times shared = beside_bulk(0, 0), first = beside_bulk(0, 3);
  // In turn, each of the five packets waits for a large one.
  EXPECT_GT(shared.small, kStart + 5 * kBulkTime);
  // First, they wait for the one that is in service.
  EXPECT_LT(first.small,
            first.rung + kStart + kBulkTime + 4 * kSmallTime + kDescriptor + 4 * kWake);
  EXPECT_GT(shared.small - first.small, 3 * kBulkTime);
  EXPECT_NEAR(static_cast<double>(shared.bulk), static_cast<double>(first.bulk), 1000)
      << "the engine has the same work";
}

TEST_F(ServiceClasses, ABulkTransferOfALowerClassIsServedFirstToo) {
  const Times last = beside_bulk(3, 0);
  EXPECT_GT(last.small, kStart + 20 * kBulkTime + 4 * kSmallTime);
}

TEST_F(ServiceClasses, EqualClassesTakeTurnsWhicheverTheyAre) {
  const Times zero = beside_bulk(0, 0);
  for (unsigned c = 1; c < NEURON_DMA_CLASSES; ++c) EXPECT_EQ(beside_bulk(c, c), zero) << c;
}

TEST_F(ServiceClasses, GiveTheSameTimesOnEveryRun) {
  EXPECT_EQ(beside_bulk(1, 2), beside_bulk(1, 2));
  EXPECT_EQ(beside_bulk(1, 2, 60), beside_bulk(1, 2, 60));
}

TEST_F(ServiceClasses, ARunOfALoneQueueEndsWhenALowerClassBecomesReady) {
  // 60 instructions are 3.2 us: queue 0 is in a run of 16 packets then.
  const Times waits = beside_bulk(2, 2, 60), breaks = beside_bulk(1, 2, 60);
  EXPECT_GT(waits.small, kStart + 16 * kBulkTime) << "behind the whole run";
  EXPECT_LT(breaks.small,
            breaks.rung + kStart + kBulkTime + 4 * kSmallTime + kDescriptor + 6 * kWake);
  EXPECT_NEAR(static_cast<double>(breaks.bulk), static_cast<double>(waits.bulk),
              double{kDescriptor});
}

TEST_F(ServiceClasses, AreServedInTheirOrderAndTheHighestWaitsForAllOthers) {
  constexpr std::array<unsigned, 4> kClassOfQueue = {3, 1, 0, 2};
  std::vector<Instruction> program;
  for (unsigned queue = 0; queue < 4; ++queue) {
    fill(queue, 8, kBulk, kClassOfQueue[queue]);
    program.push_back(ring(queue, 9));
  }
  for (const unsigned queue : {2U, 1U, 3U, 0U}) {
    program.push_back(time_when(20 + queue, 1, 2 + 2 * queue));
  }
  execute(kSp, program);
  const auto done = [&](unsigned queue) { return register_of(kSp, 2 + 2 * queue); };
  // A packet of class 3 was in service before the others were ready.
  constexpr uint64_t kEach = 8 * kBulkTime + kDescriptor;
  EXPECT_LT(done(2), kStart + kEach + 2 * kBulkTime);
  EXPECT_LT(done(1), done(2) + kEach + kWake);
  EXPECT_LT(done(3), done(1) + kEach + kWake);
  EXPECT_LT(done(0), done(3) + kEach + kWake);
  EXPECT_GT(done(0), kStart + 32 * kBulkTime);
}

TEST_F(ServiceClasses, APacketWaitsForThoseInFrontOfItInItsQueue) {
  fill(0, 8, kBulk, 3);
  add_packet(0, 9, kOne, semaphore_increment(22), 4, 0);
  fill(1, 8, kBulk, 1);
  execute(kSp, {ring(0, 10), ring(1, 9), time_when(21, 1, 2), time_when(22, 1, 4)});
  EXPECT_GT(register_of(kSp, 4), register_of(kSp, 2) + 6 * kBulkTime);
}

TEST_F(ServiceClasses, AreInTheDescriptorsThatTheCoreGenerates) {
  set_up_queue(0, 3);
  Instruction i = inst(NEURON_OP_DMA_GENERATE);
  i.engines = 1u << kPool;
  i.generate.from = kData;
  i.generate.to = kData + 0x10000;
  i.generate.from_dims = {{{8, 4}, {2, 64}}};
  i.generate.to_dims = {{{8, 4}, {2, 128}}};
  i.dma.operation = NEURON_DMA_ADD;
  i.dma.from_type = i.dma.to_type = NEURON_DTYPE_F32;
  i.dma.accumulate = true;
  i.dma.queue = 3;
  i.dma.mask = 1;
  i.dma.priority = 2;
  i.dma.semaphore = 40;
  i.dma.signal = true;
  execute(kPool, {i});
  const auto class_of = [&](unsigned slot) {
    return word(ring_address(0, 3, false) + slot * 16 + 4) >> NEURON_META_CLASS_SHIFT & 3;
  };
  // Metadata and data of two rows, then the word for the semaphore.
  EXPECT_EQ(class_of(0), 2U);
  EXPECT_EQ(class_of(1), 0U);
  EXPECT_EQ(class_of(2), 2U);
  EXPECT_EQ(class_of(4), 2U);
  i.dma.operation = NEURON_DMA_COPY;
  i.dma.accumulate = false;
  execute(kPool, {i});
  for (unsigned slot = 5; slot < 8; ++slot) EXPECT_EQ(class_of(slot), 2U) << slot;
}

}  // namespace
}  // namespace neuron::core
