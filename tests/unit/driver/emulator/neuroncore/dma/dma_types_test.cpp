// SPDX-License-Identifier: Apache-2.0
// dma_generate, dma_gather and dma_scatter with every type on each side that the checks accept:
// what arrives is what the instruction says, rounded once to the type of the destination, and bit
// by bit where it only moves. Formats and rounding are worked out by small_values.h.
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/isa/small_values.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::core {
namespace {

namespace samples = isa::testing;
using samples::Sample;

constexpr unsigned kTypesQueue = 3, kTypesSemaphore = 40;
constexpr uint16_t kTypeRows = 32, kTypeColumns = 16;
constexpr uint32_t kIndexAt = 0x8000, kTableStep = 256;
constexpr uint64_t kTypesTo = kData + 0x100000;
constexpr unsigned kMask = 0x0015;  // three DMA engines

class DmaTypes : public EveryGeneration {
 protected:
  void SetUp() override {
    EveryGeneration::SetUp();
    for (unsigned engine = 0; engine < 16; ++engine) {
      if ((kMask >> engine & 1) != 0) set_up_queue(engine, kTypesQueue);
    }
    for (unsigned p = 0; p < kTypeRows; ++p) {
      ASSERT_TRUE(chip_->bus().write32(sbuf_address(p, kIndexAt), row_of(p), {}));
    }
  }
  // The row of the table that belongs to a partition.
  static uint32_t row_of(unsigned partition) { return (partition * 7 + 3) % kTypeRows; }

  // The sample on 32 rows of 16 elements.
  Instruction small(Instruction i) const {
    i.dma.queue = kTypesQueue;
    i.dma.mask = kMask;
    i.dma.signal = true;
    i.dma.semaphore = kTypesSemaphore;
    const auto from = static_cast<int>(isa::dtype_bytes(i.dma.from_type));
    const auto to = static_cast<int>(isa::dtype_bytes(i.dma.to_type));
    if (i.opcode == NEURON_OP_DMA_GENERATE) {
      i.generate.from = kData;
      i.generate.from_dims = {{{kTypeColumns, from}, {kTypeRows, static_cast<int>(kTableStep)}}};
      i.generate.to = sbuf_address(0, 0);
      i.generate.to_dims = {{{kTypeColumns, to}, {kTypeRows, NEURON_SBUF_PARTITION_STRIDE}}};
      i.generate.limit = 0;
      return i;
    }
    const bool gather = i.opcode == NEURON_OP_DMA_GATHER;
    i.dst = sbuf(kTypeRows, 0, i.dst.dtype, kTypeColumns);
    i.src0 = sbuf(kTypeRows, kIndexAt, NEURON_DTYPE_U32, 1);
    i.indirect = {gather ? kData : kTypesTo,
                  static_cast<uint32_t>(kTypeColumns * (gather ? from : to)), kTableStep,
                  kTypeRows};
    return i;
  }

  // Where row r of the source and of the destination begin.
  uint64_t source(const Instruction& i, unsigned r) const {
    if (i.opcode == NEURON_OP_DMA_SCATTER) return sbuf_address(r, 0);
    return kData + (i.opcode == NEURON_OP_DMA_GATHER ? row_of(r) : r) * kTableStep;
  }
  uint64_t destination(const Instruction& i, unsigned r) const {
    return i.opcode == NEURON_OP_DMA_SCATTER ? kTypesTo + row_of(r) * kTableStep
                                             : sbuf_address(r, 0);
  }

  using Row = std::vector<uint64_t>;  // codes
  void write(uint64_t at, uint8_t type, const Row& codes) {
    const size_t width = isa::dtype_bytes(type);
    std::vector<std::byte> bytes(codes.size() * width);
    for (size_t n = 0; n < codes.size(); ++n) {
      std::memcpy(bytes.data() + n * width, &codes[n], width);
    }
    ASSERT_TRUE(chip_->bus().write(at, bytes, {}));
  }
  Row read(uint64_t at, uint8_t type) {
    const size_t width = isa::dtype_bytes(type);
    std::vector<std::byte> bytes(kTypeColumns * width);
    EXPECT_TRUE(chip_->bus().read(at, bytes, {}));
    Row codes(kTypeColumns);
    for (size_t n = 0; n < codes.size(); ++n) {
      std::memcpy(&codes[n], bytes.data() + n * width, width);
    }
    return codes;
  }
  uint64_t code(uint8_t type, double number) {
    const auto [found, is_new] = codes_.try_emplace({type, number}, 0);
    if (is_new) {
      const auto known = samples::code_of(type, number);
      EXPECT_TRUE(known) << isa::dtype_name(type) << " has no " << number;
      found->second = known.value_or(0);
    }
    return found->second;
  }

  // Numbers that the type has: halves and numbers below zero where it has them, and its largest.
  std::vector<double> numbers(uint8_t type) {
    const samples::NumberFormat f = samples::format_of(type);
    if (f.is_integer && !f.is_signed) return {0, 1, 2, 3, 7, 100};
    if (f.is_integer) return {0, 1, -2, 3, -7, 100};
    return {0, 1.5, -2.5, 3, -0.25, 12};
  }

  void expect_values(const Sample& form) {
    const Instruction i = small(form.instruction);
    const uint8_t from = i.dma.from_type, to = i.dma.to_type;
    const bool moves = i.dma.operation == NEURON_DMA_COPY;
    std::vector<Row> sent(kTypeRows, Row(kTypeColumns));
    const std::vector<double> values = numbers(from);
    const size_t width = isa::dtype_bytes(from);
    for (unsigned r = 0; r < kTypeRows; ++r) {
      for (unsigned c = 0; c < kTypeColumns; ++c) {
        sent[r][c] =
            moves ? random_() << 32 ^ random_() : code(from, values[(r * 5 + c) % values.size()]);
        if (width < 8) sent[r][c] &= (uint64_t{1} << 8 * width) - 1;
      }
      write(source(i, r), from, sent[r]);
      write(destination(i, r), to, Row(kTypeColumns, moves ? 0 : code(to, 1)));
    }
    Instruction halt = inst(NEURON_OP_HALT);
    halt.drain = true;
    load(form.engine, {i, halt}, 0);
    ASSERT_EQ(run(), chip::RunResult::kQuiescent);
    ASSERT_EQ(state(form.engine), NEURON_STATE_HALTED)
        << isa::fault_name(fault(form.engine)) << ": " << isa::disassemble(i);
    for (unsigned r = 0; r < kTypeRows; ++r) {
      const Row found = read(destination(i, r), to);
      for (unsigned c = 0; c < kTypeColumns; ++c) {
        if (moves) {
          ASSERT_EQ(found[c], sent[r][c]) << isa::disassemble(i) << ": " << r << ", " << c;
          continue;
        }
        double exact = samples::number_of(from, sent[r][c]);
        if (i.dma.accumulate) exact += 1;
        ASSERT_EQ(samples::number_of(to, found[c]), samples::rounded_to(to, exact))
            << isa::disassemble(i) << ": " << exact;
      }
    }
  }

  std::mt19937_64 random_{29};
  std::map<std::pair<uint8_t, double>, uint64_t> codes_;  // known ones: to find one takes long
};

INSTANTIATE_TEST_SUITE_P(Generations, DmaTypes, kGenerations);

TEST_P(DmaTypes, ArriveRoundedOnceOrBitByBit) {
  unsigned count = 0;
  for (const Sample& sample : samples::samples_of_every_engine(GetParam())) {
    if (!samples::is_dma(sample.instruction)) continue;
    for (const unsigned place : {samples::kPlaceFrom, samples::kPlaceTo}) {
      for (const uint8_t type : samples::types_of(GetParam())) {
        for (const Sample& form : samples::forms(sample, place, type)) {
          expect_values(form);
          if (HasFatalFailure()) return;
          ++count;
        }
      }
    }
  }
  EXPECT_GT(count, 200U);
}

}  // namespace
}  // namespace neuron::core
