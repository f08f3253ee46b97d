// SPDX-License-Identifier: Apache-2.0
// Core 0 of a chip of generation 3 or 4, and queues of its DMA engine 0: what tests of model time
// share that compare generations.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_GENERATION_MACHINE_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_GENERATION_MACHINE_H

#include <string>
#include <vector>

#include "driver/emulator/chip/chip_layout.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"

namespace neuron::core {

class GenerationMachine : public CoreMachine {
 protected:
  static constexpr uint64_t kWindow = NEURON_V3_CORE_WINDOW(0);
  static constexpr uint64_t kOne = kData + 0x1F00000;  // a word that is 1

  void SetUp() override { begin(4); }
  // A new chip.
  void begin(unsigned generation) {
    create(generation);
    const uint32_t one = 1;
    std::memcpy(memory(kOne, 4), &one, 4);
  }
  uint64_t device(uint64_t bar0) const { return chip_->bus().layout().device_of(bar0); }
  // Packet number `index` of a queue: a copy in a class of service.
  void add_packet(unsigned queue, unsigned index, uint64_t from, uint64_t to, uint32_t bytes,
                  unsigned service_class = 0) {
    add_copy(0, queue, index, from, to, bytes);
    uint32_t meta = NEURON_META_DEFAULT | service_class << NEURON_META_CLASS_SHIFT;
    std::memcpy(memory(ring_address(0, queue, false) + index * 16 + 4, 4), &meta, 4);
  }
  Instruction ring(unsigned queue, unsigned count) const {
    Instruction i = trigger(queue, 1, count);
    const uint64_t base = device(NEURON_V3_UDMA(0));
    i.trigger.m2s = base + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, queue) + NEURON_UDMAQ_TAIL_INC;
    i.trigger.s2m = base + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, queue) + NEURON_UDMAQ_TAIL_INC;
    return i;
  }
  // The model time into registers `rd` and behind, once the semaphore has the value.
  static Instruction time_when(unsigned semaphore, unsigned value, unsigned rd) {
    Instruction i = inst(NEURON_OP_TIME);
    i.wait[0] = wait_ge(semaphore, value);
    i.flow.rd = static_cast<uint8_t>(rd);
    return i;
  }
  void execute(unsigned engine, std::vector<Instruction> program) {
    Instruction halt = inst(NEURON_OP_HALT);
    halt.engines = static_cast<uint8_t>(1u << engine);
    halt.drain = true;
    program.push_back(halt);
    place(engine, program);
    const uint64_t block = kWindow + NEURON_CORE_ENGINE(engine);
    set_core(block + NEURON_ENG_PROG_LO, static_cast<uint32_t>(kCode + engine * 0x10000));
    set_core(block + NEURON_ENG_PROG_COUNT, static_cast<uint32_t>(program.size()));
    set_core(block + NEURON_ENG_CONTROL, NEURON_CMD_START);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
    EXPECT_EQ(core_register(block + NEURON_ENG_STATUS) & 15, unsigned{NEURON_STATE_HALTED})
        << isa::fault_name(core_register(block + NEURON_ENG_EXC_CODE)) << "\n"
        << chip_->describe_core(0);
  }
};

}  // namespace neuron::core

#endif
