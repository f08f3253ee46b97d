// SPDX-License-Identifier: Apache-2.0
// Cores 0 and 1 of a chip of generation 3 or 4, each with programs: what tests of two share.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_PAIR_MACHINE_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_PAIR_MACHINE_H

#include <array>
#include <chrono>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"

namespace neuron::core {

inline Instruction load_word(unsigned rd, uint64_t address) {
  Instruction i = inst(NEURON_OP_LOAD);
  i.flow.rd = static_cast<uint8_t>(rd);
  i.address = {address, 0, 1};
  return i;
}
inline Instruction done(unsigned engine) {
  Instruction i = inst(NEURON_OP_HALT);
  i.engines = static_cast<uint8_t>(1u << engine);
  i.drain = true;
  return i;
}

class PairMachine : public CoreMachine {
 protected:
  void SetUp() override { create(3); }
  static uint64_t at(unsigned core, unsigned engine, uint32_t offset) {
    return NEURON_V3_CORE_WINDOW(core) + NEURON_CORE_ENGINE(engine) + offset;
  }
  void start(unsigned core, unsigned engine, const std::vector<Instruction>& program) {
    const uint64_t code = kCode + core * 0x80000 + engine * 0x10000;
    place_at(memory(code, program.size() * NEURON_INSTRUCTION_BYTES), program, engine, generation_);
    set_core(at(core, engine, NEURON_ENG_PROG_LO), static_cast<uint32_t>(code));
    set_core(at(core, engine, NEURON_ENG_PROG_COUNT), static_cast<uint32_t>(program.size()));
    set_core(at(core, engine, NEURON_ENG_CONTROL), NEURON_CMD_START);
  }
  unsigned state_of(unsigned core, unsigned engine) {
    return chip_->read_register(at(core, engine, NEURON_ENG_STATUS)) & 15;
  }
  unsigned fault_of(unsigned core, unsigned engine) {
    return chip_->read_register(at(core, engine, NEURON_ENG_EXC_CODE));
  }
  uint64_t time_of(unsigned core) {
    const uint64_t control = NEURON_V3_CORE_WINDOW(core) + NEURON_CORE_CONTROL;
    return chip_->read_register(control + NEURON_CORE_TIME_LO) |
           uint64_t{chip_->read_register(control + NEURON_CORE_TIME_HI)} << 32;
  }
  // Both groups, each in a thread that begins when it likes.
  std::array<chip::RunResult, 2> run_both(unsigned seed = 0, int milliseconds = 5000) {
    std::array<chip::RunResult, 2> results{};
    std::vector<std::thread> threads;
    for (unsigned core = 0; core < 2; ++core) {
      threads.emplace_back([&, core] {
        std::mt19937 random(seed * 2 + core);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        results[core] = chip_->run_group(
            core, std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds));
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  void expect_halted(unsigned core, unsigned engine) {
    EXPECT_EQ(state_of(core, engine), NEURON_STATE_HALTED)
        << isa::fault_name(fault_of(core, engine)) << "\n"
        << chip_->describe_core(core);
  }
  static uint64_t sbuf_of(unsigned core, unsigned partition, uint32_t byte) {
    return NEURON_V3_CORE_DEVICE(uint64_t{core}) + partition * NEURON_SBUF_PARTITION_STRIDE + byte;
  }
  void put_row(unsigned core, unsigned partition, uint32_t byte, const std::vector<uint32_t>& row) {
    ASSERT_TRUE(
        chip_->bus().write(sbuf_of(core, partition, byte), std::as_bytes(std::span(row)), {}));
  }
  std::vector<uint32_t> row_of(unsigned core, unsigned partition, uint32_t byte, size_t n) {
    std::vector<uint32_t> row(n);
    EXPECT_TRUE(chip_->bus().read(sbuf_of(core, partition, byte),
                                  std::as_writable_bytes(std::span(row)), {}));
    return row;
  }
  void reset_both() {
    for (unsigned core = 0; core < 2; ++core) {
      set_core(NEURON_V3_CORE_WINDOW(core) + NEURON_CORE_CONTROL + NEURON_CORE_COMMAND,
               NEURON_CMD_RESET | 0x1F00);
    }
  }
  // Device address of what increments a semaphore of a core.
  static uint64_t increment_of(unsigned core, unsigned semaphore) {
    return NEURON_V3_CORE_DEVICE(uint64_t{core}) + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC +
           4 * semaphore;
  }
};

}  // namespace neuron::core

#endif
