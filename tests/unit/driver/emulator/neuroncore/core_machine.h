// SPDX-License-Identifier: Apache-2.0
// A chip with programs for its core 0, driven by BAR writes only: what the tests of this folder
// share.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_CORE_MACHINE_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_CORE_MACHINE_H

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/chip/chip_layout.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/isa/instruction.h"
#include "hw/address_map.h"
#include "hw/control.h"
#include "hw/notification.h"
#include "hw/udma.h"
#include "tests/unit/driver/emulator/neuroncore/executed.h"

namespace neuron::core {

using isa::Instruction;

class NoHostMemory final : public chip::HostMemory {
 public:
  std::byte* translate(uint64_t, size_t) override { return nullptr; }
};

inline constexpr uint64_t kCode = 0x1000000;    // program of engine e at + e * 0x10000
inline constexpr uint64_t kDone = 0x1100000;    // completion record of engine e at + e * 64
inline constexpr uint64_t kLaunch = 0x1101000;  // launch record
inline constexpr uint64_t kErrors = 0x1110000;  // error notification ring
inline constexpr uint64_t kTrace = 0x1120000;   // trace rings, 4 KiB each
inline constexpr uint64_t kData = 0x2000000;
inline constexpr uint64_t kRings = 0x3000000;
inline constexpr uint32_t kRingBytes = 4096;

inline Instruction inst(unsigned opcode) {
  Instruction i;
  i.opcode = static_cast<uint16_t>(opcode);
  i.engines = 0x1F;
  switch (opcode >> 8) {
    case 2:
      i.engines = 1 << NEURON_ENGINE_PE;
      break;
    case 4:
      i.engines = 1 << NEURON_ENGINE_ACTIVATION;
      break;
    case 5:
      i.engines = 1 << NEURON_ENGINE_POOL;
      break;
    case 3:
      i.engines =
          opcode == NEURON_OP_READ_ACC ? 1 << NEURON_ENGINE_ACTIVATION : 1 << NEURON_ENGINE_DVE;
      break;
    default:
      break;
  }
  return i;
}

inline isa::Scalar number(uint32_t value) {
  return {value, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_I32, 0, 0};
}
inline isa::Scalar real(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return {bits, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_F32, 0, 0};
}
inline isa::Scalar reg(unsigned number) {
  return {number, NEURON_SCALAR_REGISTER, NEURON_DTYPE_I32, 0, 0};
}
inline isa::Wait wait_ge(unsigned semaphore, unsigned value) {
  return {static_cast<uint8_t>(semaphore), NEURON_WAIT_GE, false, false,
          static_cast<uint16_t>(value)};
}
inline isa::Update update(unsigned operation, unsigned index, bool at_complete = true,
                          unsigned value = 0) {
  return {static_cast<uint8_t>(index), static_cast<uint8_t>(operation), at_complete, false,
          static_cast<uint16_t>(value)};
}
inline Instruction mov(unsigned rd, uint32_t value) {
  Instruction i = inst(NEURON_OP_MOV);
  i.flow.rd = static_cast<uint8_t>(rd);
  i.scalar0 = number(value);
  return i;
}
inline Instruction alu(unsigned rd, unsigned ra, unsigned op, uint32_t value) {
  Instruction i = inst(NEURON_OP_ALU);
  i.flow.rd = static_cast<uint8_t>(rd);
  i.flow.ra = static_cast<uint8_t>(ra);
  i.flow.imm = true;
  i.flow.alu = static_cast<uint8_t>(op);
  i.scalar0 = number(value);
  return i;
}
inline Instruction branch(int target, unsigned condition = NEURON_BRANCH_ALWAYS, unsigned ra = 0,
                          uint32_t value = 0) {
  Instruction i = inst(NEURON_OP_BRANCH);
  i.flow.target = target;
  i.flow.condition = static_cast<uint8_t>(condition);
  if (condition != NEURON_BRANCH_ALWAYS) {
    i.flow.ra = static_cast<uint8_t>(ra);
    i.flow.imm = true;
    i.scalar0 = number(value);
  }
  return i;
}
inline Instruction loop(unsigned rd, uint32_t from, uint32_t to, int step, unsigned length) {
  Instruction i = inst(NEURON_OP_LOOP);
  i.flow.rd = static_cast<uint8_t>(rd);
  i.loop = {step, length};
  i.scalar0 = number(from);
  i.scalar1 = number(to);
  return i;
}
inline Instruction call(int target) {
  Instruction i = inst(NEURON_OP_CALL);
  i.flow.target = target;
  return i;
}
inline Instruction store(uint64_t address, unsigned ra) {
  Instruction i = inst(NEURON_OP_STORE);
  i.address.addr = address;
  i.address.count = 1;
  i.flow.ra = static_cast<uint8_t>(ra);
  return i;
}
inline Instruction write_word(uint64_t address, uint32_t value, unsigned count = 1,
                              int stride = 0) {
  Instruction i = inst(NEURON_OP_WRITE);
  i.address = {address, stride, static_cast<uint16_t>(count)};
  i.scalar0 = number(value);
  return i;
}
inline isa::Operand tile(unsigned space, unsigned start, unsigned parts, uint32_t base,
                         unsigned dtype, std::vector<int> sizes, std::vector<int> steps = {}) {
  isa::Operand o;
  o.space = static_cast<uint8_t>(space);
  o.start = static_cast<uint8_t>(start);
  o.parts = static_cast<uint8_t>(parts);
  o.base = base;
  o.dtype = static_cast<uint8_t>(dtype);
  o.ndim = static_cast<uint8_t>(sizes.size());
  int step = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    o.size[d] = static_cast<uint16_t>(sizes[d]);
    o.step[d] = static_cast<int16_t>(steps.empty() ? step : steps[d]);
    if (steps.empty()) step *= sizes[d];
  }
  return o;
}
inline isa::Operand sbuf(unsigned parts, uint32_t base, unsigned dtype, int size) {
  return tile(NEURON_SPACE_SBUF, 0, parts, base, dtype, {size});
}
inline isa::Operand psum(unsigned parts, uint32_t base, unsigned dtype, int size) {
  return tile(NEURON_SPACE_PSUM, 0, parts, base, dtype, {size});
}

// Encodes a program for an engine of a chip of the generation, and notes what this test executes.
inline void place_at(std::byte* code, const std::vector<Instruction>& program, unsigned engine,
                     unsigned generation) {
  for (const Instruction& i : program) {
    isa::encode(i, isa::MutableBytes(code, NEURON_INSTRUCTION_BYTES));
    Executed::all().note(i, engine, generation);
    code += NEURON_INSTRUCTION_BYTES;
  }
}

class CoreMachine : public ::testing::Test {
 protected:
  void SetUp() override { create(2); }
  // A new chip of the generation.
  void create(unsigned generation) {
    chip::ChipConfig config;
    config.pci_device = generation == 4   ? NEURON_PCI_DEVICE_TRN3
                        : generation == 3 ? NEURON_PCI_DEVICE_TRN2
                                          : NEURON_PCI_DEVICE_TRN1;
    config.hbm_bytes_each = 64u << 20;
    config.workers = 1;
    std::string error;
    chip_ = core::create_chip(config, host_, error);
    ASSERT_NE(chip_, nullptr) << error;
    generation_ = generation;
    window_ = generation == 2 ? NEURON_V2_CORE_WINDOW(0) : NEURON_V3_CORE_WINDOW(0);
  }

  // Puts a program into HBM and starts it with one burst per engine, as a driver would by DMA.
  void load(unsigned engine, const std::vector<Instruction>& program, uint32_t launch = 1) {
    place(engine, program);
    const uint64_t base = kCode + engine * 0x10000;
    set(engine, NEURON_ENG_PROG_LO, static_cast<uint32_t>(base));
    set(engine, NEURON_ENG_PROG_HI, 0);
    set(engine, NEURON_ENG_PROG_COUNT, static_cast<uint32_t>(program.size()));
    set(engine, NEURON_ENG_ENTRY, 0);
    set(engine, NEURON_ENG_DONE_LO, static_cast<uint32_t>(kDone + engine * 64));
    set(engine, NEURON_ENG_LAUNCH_LO, launch ? static_cast<uint32_t>(kLaunch) : 0);
    set(engine, NEURON_ENG_CONTROL, NEURON_CMD_START);
  }
  void place(unsigned engine, const std::vector<Instruction>& program) {
    place_at(memory(kCode + engine * 0x10000, program.size() * NEURON_INSTRUCTION_BYTES), program,
             engine, generation_);
  }
  chip::RunResult run(int milliseconds = 2000) {
    return chip_->run_group(
        0, std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds));
  }
  void load_and_run(unsigned engine, const std::vector<Instruction>& program) {
    load(engine, program);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
  }
  // Zeros in the bytes that samples read, so that indices and strict mode find something.
  void clear_tiles() {
    std::vector<Instruction> program;
    for (const bool on_psum : {false, true}) {
      Instruction i = inst(NEURON_OP_MEMSET);
      i.dst = on_psum ? psum(128, 0, NEURON_DTYPE_F32, 2048) : sbuf(128, 0, NEURON_DTYPE_F32, 8192);
      program.push_back(i);
    }
    program.push_back(inst(NEURON_OP_HALT));
    load_and_run(NEURON_ENGINE_DVE, program);
    ASSERT_EQ(state(NEURON_ENGINE_DVE), NEURON_STATE_HALTED);
  }

  std::byte* memory(uint64_t address, size_t bytes) { return chip_->hbm().direct(address, bytes); }
  uint32_t word(uint64_t address) {
    uint32_t value;
    std::memcpy(&value, memory(address, 4), 4);
    return value;
  }
  uint32_t core_register(uint64_t offset) { return chip_->read_register(offset); }
  // inline: the test runs the group itself.
  void set_core(uint64_t offset, uint32_t value) { chip_->write_register(offset, value, true); }
  uint32_t get(unsigned engine, uint32_t at) {
    return core_register(window_ + NEURON_CORE_ENGINE(engine) + at);
  }
  void set(unsigned engine, uint32_t at, uint32_t value) {
    set_core(window_ + NEURON_CORE_ENGINE(engine) + at, value);
  }
  unsigned state(unsigned engine) { return get(engine, NEURON_ENG_STATUS) & 15; }
  uint32_t register_of(unsigned engine, unsigned number) {
    return get(engine, NEURON_ENG_REG0 + 4 * number);
  }
  unsigned fault(unsigned engine) { return get(engine, NEURON_ENG_EXC_CODE); }
  uint64_t time() {
    const uint64_t low = core_register(window_ + NEURON_CORE_CONTROL + NEURON_CORE_TIME_LO);
    return low | uint64_t{core_register(window_ + NEURON_CORE_CONTROL + NEURON_CORE_TIME_HI)} << 32;
  }
  uint32_t semaphore(unsigned index) {
    return core_register(window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_READ + 4 * index);
  }
  void increment(unsigned index, uint32_t by = 1) {
    set_core(window_ + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * index, by);
  }
  neuron_completion_record record(unsigned engine) {
    neuron_completion_record r;
    std::memcpy(&r, memory(kDone + engine * 64, sizeof(r)), sizeof(r));
    return r;
  }
  // As a host polls: the acquire load pairs with the release by which the core completes a record.
  unsigned completions(unsigned engine) {
    auto* record = reinterpret_cast<neuron_completion_record*>(
        memory(kDone + engine * 64, sizeof(neuron_completion_record)));
    return std::atomic_ref<unsigned>(record->sequence).load(std::memory_order_acquire);
  }
  void set_up_ring(unsigned slot, uint64_t address) {
    const uint64_t queues =
        generation_ == 2 ? NEURON_V2_CORE_NOTIFICATION(0) : NEURON_V3_CORE_NOTIFICATION(0);
    const uint64_t queue = queues + NEURON_NQ_BASE(slot);
    set_core(queue + NEURON_NQ_ADDRESS_LO, static_cast<uint32_t>(address));
    set_core(queue + NEURON_NQ_ADDRESS_HI, static_cast<uint32_t>(address >> 32));
    set_core(queue + NEURON_NQ_SIZE, kRingBytes);
  }
  neuron_notification notification(uint64_t ring, unsigned index) {
    neuron_notification n;
    std::memcpy(&n, memory(ring + index * sizeof(n), sizeof(n)), sizeof(n));
    return n;
  }

  // Device address of an offset into the window of core 0, of an SBUF or PSUM byte of core 0, and
  // values there.
  uint64_t device_address(uint64_t offset) const {
    return chip_->bus().layout().device_of(window_) + offset;
  }
  uint64_t sbuf_address(unsigned partition, uint32_t at) const {
    return device_address(partition * NEURON_SBUF_PARTITION_STRIDE + at);
  }
  uint64_t psum_address(unsigned partition, uint32_t at) const {
    return device_address(NEURON_CORE_PSUM + partition * NEURON_PSUM_PARTITION_STRIDE + at);
  }
  uint64_t semaphore_increment(unsigned index) const {
    return device_address(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * index);
  }
  float sbuf_float(unsigned partition, uint32_t at) {
    return as_float(sbuf_address(partition, at));
  }
  float psum_float(unsigned partition, uint32_t at) {
    return as_float(psum_address(partition, at));
  }
  void set_sbuf(unsigned partition, uint32_t at, float value) {
    std::array<std::byte, 4> bytes;
    std::memcpy(bytes.data(), &value, 4);
    ASSERT_TRUE(chip_->bus().write(sbuf_address(partition, at), bytes, {}));
  }
  // Writes zeros to bytes [0, bytes) of the first partitions: strict mode refuses to read memory
  // that nothing has written.
  void fill_sbuf(unsigned partitions, uint32_t bytes) {
    const std::vector<std::byte> zeros(bytes);
    for (unsigned p = 0; p < partitions; ++p) {
      ASSERT_TRUE(chip_->bus().write(sbuf_address(p, 0), zeros, {}));
    }
  }
  float as_float(uint64_t address) {
    uint32_t bits = 0;
    EXPECT_TRUE(chip_->bus().read32(address, bits, {}));
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }

  // --- DMA: queue `queue` of engine 0..15, one descriptor pair per call ---
  struct Ring {
    uint32_t count = 0;
  };
  uint64_t udma(unsigned engine) const {
    return generation_ == 2 ? NEURON_V2_UDMA(engine) : NEURON_V3_UDMA(engine);
  }
  void set_up_queue(unsigned engine, unsigned queue) {
    for (const uint32_t half : {NEURON_UDMA_M2S, NEURON_UDMA_S2M}) {
      const uint64_t q = udma(engine) + NEURON_UDMA_QUEUE(half, queue);
      const uint64_t base = ring_address(engine, queue, half == NEURON_UDMA_S2M);
      set_core(q + NEURON_UDMAQ_BASE_LO, static_cast<uint32_t>(base));
      set_core(q + NEURON_UDMAQ_BASE_HI, 0);
      set_core(q + NEURON_UDMAQ_LENGTH, 64);
      set_core(q + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING);
    }
    for (const uint32_t half : {NEURON_UDMA_M2S, NEURON_UDMA_S2M}) {
      set_core(udma(engine) + half + NEURON_UDMA_CHANGE_STATE, 1);
    }
  }
  static uint64_t ring_address(unsigned engine, unsigned queue, bool s2m) {
    return kRings + (engine * 16 + queue) * 0x1000 + (s2m ? 0x800 : 0);
  }
  void add_copy(unsigned engine, unsigned queue, unsigned index, uint64_t from, uint64_t to,
                uint32_t bytes, bool barrier = false) {
    const uint32_t flags =
        (bytes & NEURON_DESC_LENGTH_MASK) | NEURON_DESC_FIRST | NEURON_DESC_LAST | 1u << 24;
    const uint32_t meta = NEURON_META_DEFAULT | (barrier ? NEURON_META_WRITE_BARRIER : 0);
    const uint32_t m2s[4] = {flags, meta, static_cast<uint32_t>(from),
                             static_cast<uint32_t>(from >> 32)};
    const uint32_t s2m[4] = {flags, 0, static_cast<uint32_t>(to), static_cast<uint32_t>(to >> 32)};
    std::memcpy(memory(ring_address(engine, queue, false) + index * 16, 16), m2s, 16);
    std::memcpy(memory(ring_address(engine, queue, true) + index * 16, 16), s2m, 16);
  }
  // Of generation 2; EveryGeneration has its own.
  static Instruction trigger(unsigned queue, uint16_t mask, unsigned count) {
    Instruction i = inst(NEURON_OP_DMA_TRIGGER);
    const uint64_t base = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(0);
    i.trigger.m2s = base + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, queue) + NEURON_UDMAQ_TAIL_INC;
    i.trigger.s2m = base + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, queue) + NEURON_UDMAQ_TAIL_INC;
    i.trigger.stride = NEURON_V2_UDMA_STRIDE;
    i.trigger.mask = mask;
    i.trigger.queue = static_cast<uint8_t>(queue);
    for (unsigned e = 0; e < 16; ++e) {
      if (mask >> e & 1) {
        i.trigger.m2s_count[e] = i.trigger.s2m_count[e] = static_cast<uint16_t>(count);
      }
    }
    return i;
  }

  NoHostMemory host_;
  std::unique_ptr<chip::Chip> chip_;
  unsigned generation_ = 2;
  uint64_t window_ = 0;  // BAR0 offset of core 0
};

// For what every generation executes: INSTANTIATE_TEST_SUITE_P(Generations, SUITE, kGenerations).
class EveryGeneration : public CoreMachine, public ::testing::WithParamInterface<unsigned> {
 protected:
  void SetUp() override { create(GetParam()); }
  Instruction trigger(unsigned queue, uint16_t mask, unsigned count) const {
    Instruction i = CoreMachine::trigger(queue, mask, count);
    const uint64_t base = chip_->bus().layout().device_of(udma(0));
    i.trigger.m2s = base + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, queue) + NEURON_UDMAQ_TAIL_INC;
    i.trigger.s2m = base + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, queue) + NEURON_UDMAQ_TAIL_INC;
    i.trigger.stride = generation_ == 2 ? NEURON_V2_UDMA_STRIDE : NEURON_V3_UDMA_STRIDE;
    return i;
  }
};
inline const auto kGenerations = ::testing::Values(2U, 3U, 4U);

}  // namespace neuron::core

#endif
