// SPDX-License-Identifier: Apache-2.0
// B += A in SBUF by DMA: its values in every generation, its time in generation 4.
#include <array>
#include <bit>
#include <cstring>

#include "tests/unit/driver/emulator/neuroncore/generation_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr unsigned kAddQueue = 3, kAddSemaphore = 40;

uint16_t bf16_of(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);  // exact values only
}

class ReadAddWrite : public GenerationMachine {
 protected:
  // `rows` rows of `elements` of HBM, added to or copied to one partition each.
  Instruction transfer(unsigned dtype, bool adds, unsigned rows, unsigned elements) const {
    const auto bytes = static_cast<int32_t>(isa::dtype_bytes(dtype));
    Instruction i = inst(NEURON_OP_DMA_GENERATE);
    i.engines = 1u << kPool;
    i.generate.from = kData;
    i.generate.to = sbuf_address(0, 0x100);
    i.generate.from_dims = {{{elements, bytes}, {rows, static_cast<int32_t>(elements) * bytes}}};
    i.generate.to_dims = {
        {{elements, bytes}, {rows, static_cast<int32_t>(NEURON_SBUF_PARTITION_STRIDE)}}};
    i.dma.operation = static_cast<uint8_t>(adds ? NEURON_DMA_ADD : NEURON_DMA_COPY);
    i.dma.accumulate = adds;
    i.dma.from_type = i.dma.to_type = static_cast<uint8_t>(dtype);
    i.dma.queue = kAddQueue;
    i.dma.mask = 1;
    i.dma.semaphore = kAddSemaphore;
    i.dma.signal = true;
    return i;
  }
  void put(uint64_t address, const void* from, size_t bytes) {
    const auto* at = static_cast<const std::byte*>(from);
    ASSERT_TRUE(chip_->bus().write(address, {at, bytes}, {}));
  }
  uint64_t time_of(unsigned generation, unsigned dtype, bool adds) {
    begin(generation);
    set_up_queue(0, kAddQueue);
    const std::vector<std::byte> zeros(0x8000);
    for (unsigned p = 0; p < 8; ++p) put(sbuf_address(p, 0), zeros.data(), zeros.size());
    execute(kPool, {transfer(dtype, adds, 8, 4096)});
    return time();
  }
};

TEST_F(ReadAddWrite, AddsInFp32AndRoundsOnce) {
  for (const unsigned generation : {3U, 4U}) {
    begin(generation);
    set_up_queue(0, kAddQueue);
    // bf16 has 8 bits: halfway cases go to the even neighbour.
    const std::array<float, 4> a = {0x1p-8F, 0x1.8p-7F, 3, -1};
    const std::array<float, 4> b = {1, 1, -3, 0x1p-20F};
    const std::array<float, 4> sums = {1, 1.015625F, 0, -1};
    std::array<uint16_t, 4> from{}, to{}, found{};
    for (unsigned i = 0; i < 4; ++i) from[i] = bf16_of(a[i]), to[i] = bf16_of(b[i]);
    put(kData, from.data(), sizeof from);
    put(sbuf_address(0, 0x100), to.data(), sizeof to);
    execute(kPool, {transfer(NEURON_DTYPE_BF16, true, 1, 4)});
    ASSERT_TRUE(
        chip_->bus().read(sbuf_address(0, 0x100), std::as_writable_bytes(std::span(found)), {}));
    for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(found[i], bf16_of(sums[i])) << i;
  }
}

TEST_F(ReadAddWrite, TakesTheTimeOfACopyOnGeneration4Only) {
  for (const unsigned dtype : {NEURON_DTYPE_BF16, NEURON_DTYPE_F32}) {
    const uint64_t bytes = uint64_t{8} * 4096 * isa::dtype_bytes(dtype);
    EXPECT_EQ(time_of(4, dtype, true), time_of(4, dtype, false)) << dtype;
    // Before, the engine reads both sides, and computes at half of its rate.
    EXPECT_NEAR(static_cast<double>(time_of(3, dtype, true) - time_of(3, dtype, false)),
                static_cast<double>(3 * bytes * 1000 / 23), 2000)
        << dtype;
  }
}

}  // namespace
}  // namespace neuron::core
