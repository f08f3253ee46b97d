// SPDX-License-Identifier: Apache-2.0
// What the checks of generation 4 accept of its data types, its DMA engines execute.
#include <array>
#include <cstring>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr unsigned kLaterQueue = 3, kLaterSemaphore = 40;
constexpr uint64_t kLaterFrom = kData, kLaterTo = kData + 0x1000;
constexpr uint64_t kLaterWindow = NEURON_V3_CORE_WINDOW(0);

// Core 0 of a chip of generation 4, and DMA engine 0 of it.
class DmaTypesOfGeneration4 : public CoreMachine {
 protected:
  void SetUp() override {
    create(4);
    set_up_queue(0, kLaterQueue);
  }
  static Instruction transfer(unsigned operation, unsigned from, unsigned to) {
    Instruction i = inst(NEURON_OP_DMA_GENERATE);
    i.engines = 1u << kPool;
    i.generate.from = kLaterFrom;
    i.generate.to = kLaterTo;
    i.dma.operation = static_cast<uint8_t>(operation);
    i.dma.from_type = static_cast<uint8_t>(from);
    i.dma.to_type = static_cast<uint8_t>(to);
    i.dma.queue = kLaterQueue;
    i.dma.mask = 1;
    i.dma.semaphore = kLaterSemaphore;
    i.dma.signal = true;
    return i;
  }
  void execute(const Instruction& i) {
    ASSERT_FALSE(isa::check_operands(i, kPool, isa::limits_of(4)));
    Instruction halt = inst(NEURON_OP_HALT);
    halt.drain = true;
    place(kPool, {i, halt});
    const uint64_t block = kLaterWindow + NEURON_CORE_ENGINE(kPool);
    set_core(block + NEURON_ENG_PROG_LO, static_cast<uint32_t>(kCode + kPool * 0x10000));
    set_core(block + NEURON_ENG_PROG_COUNT, 2);
    set_core(block + NEURON_ENG_CONTROL, NEURON_CMD_START);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
    EXPECT_EQ(core_register(block + NEURON_ENG_STATUS) & 15, unsigned{NEURON_STATE_HALTED})
        << isa::fault_name(core_register(block + NEURON_ENG_EXC_CODE)) << "\n"
        << chip_->describe_core(0);
    EXPECT_EQ(core_register(kLaterWindow + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_READ +
                            4 * kLaterSemaphore),
              1U);
  }
  template <class T, size_t kCount>
  void put(const std::array<T, kCount>& values) {
    std::memcpy(memory(kLaterFrom, sizeof(values)), values.data(), sizeof(values));
  }
  template <class T, size_t kCount>
  std::array<T, kCount> result() {
    std::array<T, kCount> values;
    std::memcpy(values.data(), memory(kLaterTo, sizeof(values)), sizeof(values));
    return values;
  }
};

TEST_F(DmaTypesOfGeneration4, ACastWritesCodesOfF8e4fn) {
  // Codes of the OCP's format: exponent bias 7, largest number 448.
  const std::array<float, 8> numbers = {1, -2, 0.5F, 448, 0, 1.5F, 0x1p-6F, 0x1p-9F};
  const std::array<uint8_t, 8> codes = {0x38, 0xC0, 0x30, 0x7E, 0x00, 0x3C, 0x08, 0x01};
  Instruction i = transfer(NEURON_DMA_CAST, NEURON_DTYPE_F32, NEURON_DTYPE_F8E4FN);
  i.generate.from_dims[0] = {8, 4};
  i.generate.to_dims[0] = {8, 1};
  put(numbers);
  execute(i);
  EXPECT_EQ((result<uint8_t, 8>()), codes);
}

TEST_F(DmaTypesOfGeneration4, ATransposeMovesX4Elements) {
  Instruction i = transfer(NEURON_DMA_TRANSPOSE, NEURON_DTYPE_F8E5X4, NEURON_DTYPE_F8E5X4);
  i.generate.from_dims = {{{3, 4}, {2, 12}}};
  i.generate.to_dims = {{{2, 4}, {3, 8}}};
  put(std::array<uint32_t, 6>{0x11111111, 2, 3, 4, 5, 0x66666666});
  execute(i);
  EXPECT_EQ((result<uint32_t, 6>()), (std::array<uint32_t, 6>{0x11111111, 4, 2, 5, 3, 0x66666666}));
}

TEST_F(DmaTypesOfGeneration4, ATransposeMovesX4ElementsOfF4) {
  Instruction i = transfer(NEURON_DMA_TRANSPOSE, NEURON_DTYPE_F4X4, NEURON_DTYPE_F4X4);
  i.generate.from_dims = {{{3, 2}, {2, 6}}};
  i.generate.to_dims = {{{2, 2}, {3, 4}}};
  put(std::array<uint16_t, 6>{0x1234, 2, 3, 4, 5, 0xFEDC});
  execute(i);
  EXPECT_EQ((result<uint16_t, 6>()), (std::array<uint16_t, 6>{0x1234, 4, 2, 5, 3, 0xFEDC}));
}

}  // namespace
}  // namespace neuron::core
