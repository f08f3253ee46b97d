// SPDX-License-Identifier: Apache-2.0
// The queue of collectives of a DMA engine, when a program rings for more than is planned at once.
#include <malloc.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr unsigned kQueue = NEURON_DMA_QUEUE_COLLECTIVES;
constexpr uint32_t kPackets = 40'000;
constexpr uint64_t kOne = kData;
constexpr uint64_t kCopy = kData + 0x100000;
constexpr uint64_t kLongRing = kData + 0x200000;  // M2S, S2M behind it

// The loop of a program takes a part of it, however often it is gone through.
constexpr size_t kLittle = size_t{2} << 20;

class LongQueueOfCollectives : public CoreMachine {
 protected:
  // Each packet writes a register, and so is a run. `broken`: the number of one that breaks a rule,
  // behind packets that take long.
  void prepare(uint32_t broken = UINT32_MAX) {
    const uint32_t one = 1;
    std::memcpy(memory(kOne, 4), &one, 4);
    set_up_queue(0, kQueue);
    constexpr uint64_t kBytes = uint64_t{kPackets} * NEURON_DESC_BYTES;
    uint64_t base = kLongRing;
    for (const uint32_t half : {NEURON_UDMA_M2S, NEURON_UDMA_S2M}) {
      const uint64_t q = udma(0) + NEURON_UDMA_QUEUE(half, kQueue);
      set_core(q + NEURON_UDMAQ_BASE_LO, static_cast<uint32_t>(base));
      set_core(q + NEURON_UDMAQ_LENGTH, kPackets);
      base += kBytes;
    }
    const uint64_t set = device_address(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET + 4 * kSet);
    for (uint32_t n = 0; n < kPackets; ++n) {
      const bool takes_long = broken != UINT32_MAX && n < broken;
      const uint64_t to = takes_long ? kCopy : n + 1 == kPackets ? semaphore_increment(kLast) : set;
      // A length of 0 is 64 KiB.
      const uint32_t flags = (takes_long ? 0 : 4) | NEURON_DESC_FIRST | NEURON_DESC_LAST | 1u << 24;
      const uint32_t m2s[4] = {n == broken ? flags & ~NEURON_DESC_FIRST : flags,
                               NEURON_META_DEFAULT, static_cast<uint32_t>(kOne), 0};
      const uint32_t s2m[4] = {flags, 0, static_cast<uint32_t>(to),
                               static_cast<uint32_t>(to >> 32)};
      std::memcpy(memory(kLongRing + n * sizeof m2s, sizeof m2s), m2s, sizeof m2s);
      std::memcpy(memory(kLongRing + kBytes + n * sizeof s2m, sizeof s2m), s2m, sizeof s2m);
    }
  }
  // How much more of the heap is in use than before, at most. Sanitizers count nothing.
  size_t run_to_the_end() {
    const size_t before = mallinfo2().uordblks;
    size_t most = before;
    for (int n = 0; n < 20'000; ++n) {
      if (run(1) == chip::RunResult::kQuiescent) return most - before;
      most = std::max<size_t>(most, mallinfo2().uordblks);
    }
    ADD_FAILURE() << "it does not end";
    return 0;
  }

  static constexpr unsigned kSet = 20, kLast = 21;
};

TEST_F(LongQueueOfCollectives, IsCarriedOutToTheEndAndTakesLittleMemory) {
  prepare();
  load(kSp, {trigger(kQueue, 1, kPackets), inst(NEURON_OP_DRAIN), inst(NEURON_OP_HALT)});
  EXPECT_LT(run_to_the_end(), kLittle);
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  EXPECT_EQ(semaphore(kSet), 1u);
  EXPECT_EQ(semaphore(kLast), 1u);
}

// The packet is met when those before it are done; until then each doorbell finds it again.
TEST_F(LongQueueOfCollectives, ThatIsRungOverAndOverBehindABrokenPacketTakesLittleMemory) {
  constexpr uint32_t kGood = 2'000;
  prepare(kGood);
  load(kSp, {trigger(kQueue, 1, kGood + 1), loop(1, 0, 30'000, 1, 1), trigger(kQueue, 1, 1),
             inst(NEURON_OP_DRAIN), inst(NEURON_OP_HALT)});
  EXPECT_LT(run_to_the_end(), kLittle);
  EXPECT_EQ(fault(kSp), NEURON_FAULT_DMA_DESC);
  EXPECT_GT(time(), uint64_t{1'000'000'000}) << "it was met late";
}

}  // namespace
}  // namespace neuron::core
