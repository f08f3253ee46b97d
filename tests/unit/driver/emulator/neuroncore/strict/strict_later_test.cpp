// SPDX-License-Identifier: Apache-2.0
// Strict mode knows exactly what the instructions of generations 3 and 4 read and write.
#include "driver/emulator/neuroncore/strict/strict_mode.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"

namespace neuron::core {
namespace {

constexpr unsigned kPe = NEURON_ENGINE_PE, kDve = NEURON_ENGINE_DVE, kPool = NEURON_ENGINE_POOL;

class StrictLater : public ::testing::Test {
 protected:
  unsigned code(const Instruction& i, unsigned engine) {
    fault_ = strict_.check(i, engine, ++pc_, memory_);
    return fault_.code;
  }
  void write(const isa::Operand& dst, unsigned engine) {
    Instruction i = inst(NEURON_OP_MEMSET);
    i.dst = dst;
    ASSERT_EQ(code(i, engine), NEURON_FAULT_NONE);
  }
  unsigned partition() const {
    return static_cast<unsigned>(fault_.address >> NEURON_STRICT_PARTITION_SHIFT) & 127;
  }
  CoreMemory memory_{NEURON_V4_SBUF_PARTITION_BYTES};
  StrictMode strict_;
  Fault fault_;
  uint32_t pc_ = 0;
};

TEST_F(StrictLater, QuantisingWritesTheScaleRowsOfItsQuarterAndNoOthers) {
  const isa::Operand source = sbuf(128, 0, NEURON_DTYPE_BF16, 64);
  Instruction quantise = inst(NEURON_OP_QUANTIZE_MX);
  quantise.dst = sbuf(128, 0x1000, NEURON_DTYPE_F8E5X4, 16);
  quantise.src0 = source;
  quantise.src1 = sbuf(128, 0x2000, NEURON_DTYPE_U8, 16);
  quantise.vector.imm = 2;
  EXPECT_EQ(code(quantise, kDve), NEURON_FAULT_UNINITIALISED) << "the source is not written";
  strict_.forget();
  write(source, kDve);
  EXPECT_EQ(code(quantise, kDve), NEURON_FAULT_NONE);
  for (unsigned row = 0; row < 128; ++row) {
    Instruction read = inst(NEURON_OP_TENSOR_COPY);
    read.dst = tile(NEURON_SPACE_SBUF, row, 1, 0x3000, NEURON_DTYPE_U8, {16});
    read.src0 = tile(NEURON_SPACE_SBUF, row, 1, 0x2000, NEURON_DTYPE_U8, {16});
    const bool used = row % 32 / 4 == 2;  // rows 8 to 11 of each quadrant
    EXPECT_EQ(code(read, kDve), used ? NEURON_FAULT_NONE : NEURON_FAULT_UNINITIALISED) << row;
    if (!used) {
      // A trap ends the shadow's validity: begin again.
      strict_.forget();
      write(source, kDve);
      ASSERT_EQ(code(quantise, kDve), NEURON_FAULT_NONE);
    }
  }
}

TEST_F(StrictLater, ProductsOfMxReadTheScaleRowsOfTheirQuarter) {
  for (const unsigned opcode : {NEURON_OP_LDWEIGHTS_MX, NEURON_OP_MATMUL_MX}) {
    for (const unsigned quarter : {1u, 3u}) {
      strict_.forget();
      Instruction i = inst(opcode);
      i.src0 = sbuf(64, 0, NEURON_DTYPE_F8E4FNX4, 32);
      i.src1 = sbuf(64, 0x1000, NEURON_DTYPE_U8, 32);
      if (opcode == NEURON_OP_MATMUL_MX) i.dst = psum(32, 0, NEURON_DTYPE_F32, 32);
      i.pe.quarter = 3;
      write(i.src0, kPe);
      for (unsigned quadrant = 0; quadrant < 64; quadrant += 32) {
        isa::Operand rows = i.src1;
        rows.start = static_cast<uint8_t>(quadrant + 4 * quarter);
        rows.parts = 4;
        write(rows, kPe);
      }
      EXPECT_EQ(code(i, kPe), quarter == 3 ? NEURON_FAULT_NONE : NEURON_FAULT_UNINITIALISED);
      if (quarter != 3) {
        EXPECT_EQ(partition(), 12U);
      }
    }
  }
}

TEST_F(StrictLater, AProductOfMxAccumulatesOntoWhatThePeWroteOnly) {
  Instruction i = inst(NEURON_OP_MATMUL_MX);
  i.src0 = sbuf(32, 0, NEURON_DTYPE_F8E4FNX4, 32);
  i.src1 = sbuf(4, 0x1000, NEURON_DTYPE_U8, 32);
  i.dst = psum(32, 0, NEURON_DTYPE_F32, 32);
  i.pe.accumulate = true;
  write(i.src0, kPe);
  write(i.src1, kPe);
  EXPECT_EQ(code(i, kPe), NEURON_FAULT_PSUM_UNDEFINED);
  strict_.forget();
  write(i.src0, kPe);
  write(i.src1, kPe);
  i.pe.accumulate = false;
  EXPECT_EQ(code(i, kPe), NEURON_FAULT_NONE);
  i.pe.accumulate = true;
  EXPECT_EQ(code(i, kPe), NEURON_FAULT_NONE);
}

TEST_F(StrictLater, NonzeroWithCountTouchesTheFirstPartitionOfEachGpSimdCore) {
  Instruction i = inst(NEURON_OP_NONZERO_WITH_COUNT);
  i.src0 = sbuf(128, 0, NEURON_DTYPE_F32, 16);
  i.dst = sbuf(128, 0x1000, NEURON_DTYPE_I32, 17);
  for (unsigned row = 0; row < 128; row += 16) {
    write(tile(NEURON_SPACE_SBUF, row, 1, 0, NEURON_DTYPE_F32, {16}), kPool);
  }
  EXPECT_EQ(code(i, kPool), NEURON_FAULT_NONE);
  Instruction read = inst(NEURON_OP_TENSOR_COPY);
  read.dst = tile(NEURON_SPACE_SBUF, 16, 1, 0x2000, NEURON_DTYPE_I32, {17});
  read.src0 = tile(NEURON_SPACE_SBUF, 16, 1, 0x1000, NEURON_DTYPE_I32, {17});
  EXPECT_EQ(code(read, kPool), NEURON_FAULT_NONE);
  read.src0.start = read.dst.start = 17;
  EXPECT_EQ(code(read, kPool), NEURON_FAULT_UNINITIALISED);
}

}  // namespace
}  // namespace neuron::core
