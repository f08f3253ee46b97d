// SPDX-License-Identifier: Apache-2.0
// The host and a core at the same DMA queue, whose packets read that core's own registers.
#include <thread>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr unsigned kHostQueue = 5;
constexpr unsigned kCoreRounds = 60000;
// Long enough that the core comes back from letting the host in while the host is still at it.
constexpr unsigned kHostRounds = 12, kHostPackets = 8000;
constexpr unsigned kSlots = 16384;

TEST_F(CoreMachine, AHostDoorbellAndItsCoreDoNotWaitForEachOtherAtOneQueue) {
  set_up_queue(0, kHostQueue);
  // A register of core 0.
  const uint64_t identity = NEURON_V2_BAR0_DEVICE_BASE + NEURON_CORE_CONTROL + NEURON_CORE_ID;
  for (const bool s2m : {false, true}) {
    const uint64_t ring = s2m ? kData + 0x200000 : kData + 0x100000;
    const uint64_t queue =
        NEURON_V2_UDMA(0) + NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, kHostQueue);
    set_core(queue + NEURON_UDMAQ_BASE_LO, static_cast<uint32_t>(ring));
    set_core(queue + NEURON_UDMAQ_LENGTH, kSlots);
    const uint32_t control = 4 | NEURON_DESC_FIRST | NEURON_DESC_LAST;
    const uint64_t low = control | (s2m ? 0 : uint64_t{NEURON_META_DEFAULT} << 32);
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      const uint64_t words[] = {low, s2m ? kData + 4 * (slot % 64) : identity};
      std::memcpy(memory(ring + 16 * slot, 16), words, 16);
    }
  }
  Instruction drain = inst(NEURON_OP_DRAIN);
  load(kSp,
       {loop(1, 0, kCoreRounds, 1, 2), trigger(kHostQueue, 1, 1), drain, inst(NEURON_OP_HALT)});
  const auto began = std::chrono::steady_clock::now();
  std::atomic<bool> started = false;
  std::thread host([this, &started] {
    const uint64_t queue = NEURON_V2_UDMA(0) + NEURON_UDMAQ_TAIL_INC;
    for (unsigned round = 0; round < kHostRounds; ++round) {
      started = true;
      chip_->write_register(queue + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, kHostQueue), kHostPackets,
                            true);
      chip_->write_register(queue + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, kHostQueue), kHostPackets,
                            true);
    }
  });
  while (!started) std::this_thread::yield();
  while (state(kSp) != NEURON_STATE_HALTED && fault(kSp) == NEURON_FAULT_NONE &&
         std::chrono::steady_clock::now() - began < std::chrono::seconds(20)) {
    run();
  }
  host.join();
  run();
  // A visitor's patience is 30 s: whoever waited for itself took longer than this.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  // Of a core that still runs, nothing below can be read.
  ASSERT_EQ(state(kSp), NEURON_STATE_HALTED) << chip_->describe_core(0);
  const uint64_t head = NEURON_V2_UDMA(0) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, kHostQueue);
  ASSERT_EQ(core_register(head + NEURON_UDMAQ_HEAD) & NEURON_UDMA_INDEX_MASK,
            (kCoreRounds + kHostRounds * kHostPackets) % kSlots);
  for (unsigned slot = 0; slot < 64; ++slot) EXPECT_EQ(word(kData + 4 * slot), 0x4E0C0200u);
}

}  // namespace
}  // namespace neuron::core
