// SPDX-License-Identifier: Apache-2.0
// The host and a core at the same DMA queue, whose packets read that core's own registers.
#include <thread>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"

namespace neuron::core {
namespace {

constexpr unsigned kSp = NEURON_ENGINE_SP;
constexpr unsigned kQueue = 5;
constexpr int kRounds = 150;

TEST_F(CoreMachine, AHostDoorbellAndItsCoreDoNotWaitForEachOtherAtOneQueue) {
  set_up_queue(0, kQueue);
  const uint64_t identity =
      NEURON_V2_BAR0_DEVICE_BASE + NEURON_CORE_CONTROL + NEURON_CORE_ID;  // a register of core 0
  for (unsigned slot = 0; slot < 64; ++slot) {
    add_copy(0, kQueue, slot, identity, kData + 4 * slot, 4);
  }
  Instruction drain = inst(NEURON_OP_DRAIN);
  load(kSp, {loop(1, 0, kRounds, 1, 2), trigger(kQueue, 1, 1), drain, inst(NEURON_OP_HALT)});
  const auto began = std::chrono::steady_clock::now();
  std::thread host([this] {
    const uint64_t queue = NEURON_V2_UDMA(0) + NEURON_UDMAQ_TAIL_INC;
    for (int round = 0; round < kRounds; ++round) {
      chip_->write_register(queue + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, kQueue), 1, true);
      chip_->write_register(queue + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, kQueue), 1, true);
    }
  });
  while (state(kSp) != NEURON_STATE_HALTED && fault(kSp) == NEURON_FAULT_NONE &&
         std::chrono::steady_clock::now() - began < std::chrono::seconds(20)) {
    run();
  }
  host.join();
  run();
  // A visitor's patience is 30 s: whoever waited for itself took longer than this.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED) << chip_->describe_core(0);
  const uint64_t head = NEURON_V2_UDMA(0) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, kQueue);
  EXPECT_EQ(core_register(head + NEURON_UDMAQ_HEAD) & NEURON_UDMA_INDEX_MASK, 2 * kRounds % 64);
  for (unsigned slot = 0; slot < 64; ++slot) EXPECT_EQ(word(kData + 4 * slot), 0x4E0C0200u);
}

}  // namespace
}  // namespace neuron::core
