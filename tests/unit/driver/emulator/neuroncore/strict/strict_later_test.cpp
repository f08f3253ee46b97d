// SPDX-License-Identifier: Apache-2.0
// Strict mode knows exactly what the instructions of generations 3 and 4 read and write.
#include "driver/emulator/neuroncore/strict/strict_mode.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

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

// The initial values of accumulators are operands: unwritten ones and those of another engine are
// noticed.
TEST_F(StrictLater, ALoadedAccumulatorReadsItsInitialValues) {
  for (const unsigned opcode : {NEURON_OP_EXPONENTIAL, NEURON_OP_TENSOR_SCALAR_REDUCE}) {
    Instruction i = inst(opcode);
    i.dst = sbuf(32, 0x100, NEURON_DTYPE_F32, 4);
    i.src0 = sbuf(32, 0, NEURON_DTYPE_F32, 4);
    i.scalar0 = real(1);
    i.scalar1 = {0x200, NEURON_SCALAR_POINTER, NEURON_DTYPE_F32, NEURON_SPACE_SBUF, 0};
    i.vector.reduce = NEURON_ALU_ADD;
    i.vector.reduce_command = NEURON_REDUCE_LOAD_ACCUMULATE;
    const isa::Operand initial = sbuf(32, 0x200, NEURON_DTYPE_F32, 1);
    strict_.forget();
    write(i.src0, kDve);
    EXPECT_EQ(code(i, kDve), NEURON_FAULT_UNINITIALISED);
    strict_.forget();
    write(i.src0, kDve);
    write(initial, kDve);
    EXPECT_EQ(code(i, kDve), NEURON_FAULT_NONE);
    strict_.forget();
    write(i.src0, kDve);
    write(initial, kPool);
    EXPECT_EQ(code(i, kDve), NEURON_FAULT_RACE);
  }
}

// All eight bytes of an element count, those of a scalar behind a pointer too.
TEST_F(StrictLater, A64BitIntegerIsReadAndWrittenWithAllItsBytes) {
  const isa::Operand halves = sbuf(32, 0, NEURON_DTYPE_U32, 4);  // of two elements
  Instruction sum = inst(NEURON_OP_TENSOR_SCALAR);
  sum.dst = sbuf(32, 0x100, NEURON_DTYPE_I64, 2);
  sum.src0 = sbuf(32, 0, NEURON_DTYPE_I64, 2);
  sum.scalar0 = {0x200, NEURON_SCALAR_POINTER, NEURON_DTYPE_I64, NEURON_SPACE_SBUF, 0};
  sum.vector.op0 = NEURON_ALU_ADD;
  const auto prepare = [&](unsigned source, unsigned scalar) {
    strict_.forget();
    write(sbuf(32, 0, NEURON_DTYPE_U32, static_cast<int>(source)), kPool);
    write(sbuf(32, 0x200, NEURON_DTYPE_U32, static_cast<int>(scalar)), kPool);
  };
  prepare(4, 2);
  EXPECT_EQ(code(sum, kPool), NEURON_FAULT_NONE);
  Instruction read = inst(NEURON_OP_TENSOR_COPY);
  read.dst = sbuf(32, 0x300, NEURON_DTYPE_U32, 4);
  read.src0 = sbuf(32, 0x100, NEURON_DTYPE_U32, 4);
  EXPECT_EQ(code(read, kPool), NEURON_FAULT_NONE) << "16 bytes have been written";
  read.src0.size[0] = 5;
  EXPECT_EQ(code(read, kPool), NEURON_FAULT_UNINITIALISED) << "and none behind them";
  prepare(3, 2);
  EXPECT_EQ(code(sum, kPool), NEURON_FAULT_UNINITIALISED) << "half of the last element";
  prepare(4, 1);
  EXPECT_EQ(code(sum, kPool), NEURON_FAULT_UNINITIALISED) << "half of the scalar";
  strict_.forget();
  write(halves, kDve);
  write(sbuf(32, 0x200, NEURON_DTYPE_U32, 2), kPool);
  EXPECT_EQ(code(sum, kPool), NEURON_FAULT_RACE) << "Vector has written the source";
}

// Offsets 0 to 19 of all groups of 16 partitions are 3, 6, 9, ...; element 19 has none in its
// column.
class StrictIndirect : public StrictLater {
 protected:
  static constexpr uint32_t kIndex = 0x4000;
  static constexpr isa::IndexPlace kPlace{kIndex, 0, NEURON_DTYPE_U16};

  void write_index(unsigned rows_of_the_last_column = 4) {
    for (unsigned part = 0; part < 32; ++part) {
      for (unsigned column = 0; column < 2; ++column) {
        const auto offset = static_cast<uint16_t>(3 * (16 * column + part % 16 + 1));
        std::memcpy(memory_.sbuf(part) + kIndex + 2 * column, &offset, 2);
      }
    }
    for (unsigned group = 0; group < 32; group += 16) {
      write(tile(NEURON_SPACE_SBUF, group, 16, kIndex, NEURON_DTYPE_U16, {1}), kDve);
      write(tile(NEURON_SPACE_SBUF, group, rows_of_the_last_column, kIndex + 2, NEURON_DTYPE_U16,
                 {1}),
            kDve);
    }
  }
  // 20 elements of f32 at the offsets.
  static isa::Operand named(uint32_t base, unsigned space = NEURON_SPACE_SBUF) {
    isa::Operand operand = tile(space, 0, 32, base, NEURON_DTYPE_F32, {20});
    operand.set_index(kPlace);
    return operand;
  }
  static Instruction copy(const isa::Operand& to, const isa::Operand& from) {
    Instruction i = inst(NEURON_OP_TENSOR_COPY);
    i.dst = to;
    i.src0 = from;
    return i;
  }
};

TEST_F(StrictIndirect, ReadsTheOffsetsOfItsIndexAndNoOthers) {
  write(sbuf(32, 0, NEURON_DTYPE_F32, 64), kDve);
  const Instruction i = copy(sbuf(32, 0x1000, NEURON_DTYPE_F32, 20), named(0));
  EXPECT_EQ(code(i, kDve), NEURON_FAULT_UNINITIALISED) << "the index is not written";
  strict_.forget();
  write(sbuf(32, 0, NEURON_DTYPE_F32, 64), kDve);
  write_index(3);
  EXPECT_EQ(code(i, kDve), NEURON_FAULT_UNINITIALISED) << "offset 19 is not written";
  EXPECT_EQ(fault_.address & NEURON_STRICT_PLACE_MASK, kIndex + 2);
  EXPECT_EQ(partition(), 3U);
  strict_.forget();
  write(sbuf(32, 0, NEURON_DTYPE_F32, 64), kDve);
  write_index();
  EXPECT_EQ(code(i, kDve), NEURON_FAULT_NONE);
}

TEST_F(StrictIndirect, ReadsTheElementsThatItsOffsetsNameAndNoOthers) {
  write_index();
  for (unsigned e = 1; e <= 20; ++e) {
    write(sbuf(32, 12 * e, NEURON_DTYPE_F32, 1), kDve);
  }
  EXPECT_EQ(code(copy(sbuf(32, 0x1000, NEURON_DTYPE_F32, 20), named(0)), kDve), NEURON_FAULT_NONE);
  EXPECT_EQ(code(copy(sbuf(32, 0x1000, NEURON_DTYPE_F32, 20), named(4)), kDve),
            NEURON_FAULT_UNINITIALISED);
  EXPECT_EQ(fault_.address & NEURON_STRICT_PLACE_MASK, 4U + 12);
}

TEST_F(StrictIndirect, WritesTheElementsThatItsOffsetsNameAndNoOthers) {
  write_index();
  write(sbuf(32, 0x1000, NEURON_DTYPE_F32, 20), kDve);
  ASSERT_EQ(code(copy(named(0), sbuf(32, 0x1000, NEURON_DTYPE_F32, 20)), kDve), NEURON_FAULT_NONE);
  const auto read = [&](uint32_t at) {
    return code(copy(sbuf(32, 0x2000, NEURON_DTYPE_F32, 1), sbuf(32, at, NEURON_DTYPE_F32, 1)),
                kDve);
  };
  EXPECT_EQ(read(12), NEURON_FAULT_NONE);
  EXPECT_EQ(read(240), NEURON_FAULT_NONE);
  EXPECT_EQ(read(252), NEURON_FAULT_UNINITIALISED);
}

TEST_F(StrictIndirect, RacesOverElementsThatItsOffsetsNameAndNoOthers) {
  write_index();
  write(sbuf(32, 0x1000, NEURON_DTYPE_F32, 20), kDve);
  ASSERT_EQ(code(copy(named(0), sbuf(32, 0x1000, NEURON_DTYPE_F32, 20)), kDve), NEURON_FAULT_NONE);
  // Another engine, which nothing orders behind, may write between the elements, not over them.
  Instruction i = inst(NEURON_OP_MEMSET);
  i.dst = sbuf(32, 16, NEURON_DTYPE_F32, 2);
  EXPECT_EQ(code(i, kPool), NEURON_FAULT_NONE);
  i.dst = sbuf(32, 16, NEURON_DTYPE_F32, 3);
  EXPECT_EQ(code(i, kPool), NEURON_FAULT_RACE);
  EXPECT_EQ(fault_.address & NEURON_STRICT_PLACE_MASK, 24U);
}

TEST_F(StrictIndirect, RacesOverTheIndexItself) {
  write_index();
  write(sbuf(32, 0, NEURON_DTYPE_F32, 64), kDve);
  ASSERT_EQ(code(copy(sbuf(32, 0x1000, NEURON_DTYPE_F32, 20), named(0)), kDve), NEURON_FAULT_NONE);
  Instruction i = inst(NEURON_OP_MEMSET);
  i.dst = sbuf(32, kIndex, NEURON_DTYPE_U16, 2);
  EXPECT_EQ(code(i, kPool), NEURON_FAULT_RACE);
}

TEST_F(StrictIndirect, AccumulatesOntoElementsThatThePeWroteOnly) {
  // The groups of PE are of 32 partitions: 20 offsets are in one column.
  write(sbuf(32, kIndex, NEURON_DTYPE_U16, 1), kPe);
  for (unsigned part = 0; part < 32; ++part) {
    const auto offset = static_cast<uint16_t>(2 * part);
    std::memcpy(memory_.sbuf(part) + kIndex, &offset, 2);
  }
  Instruction i = inst(NEURON_OP_MATMUL);
  i.src0 = sbuf(32, 0, NEURON_DTYPE_BF16, 20);
  i.dst = named(0, NEURON_SPACE_PSUM);
  write(i.src0, kPe);
  EXPECT_EQ(code(i, kPe), NEURON_FAULT_NONE);
  i.pe.accumulate = true;
  EXPECT_EQ(code(i, kPe), NEURON_FAULT_NONE);
  i.dst.base = 4;
  EXPECT_EQ(code(i, kPe), NEURON_FAULT_PSUM_UNDEFINED);
}

TEST_F(StrictIndirect, LeavesAnOffsetOutOfThePartitionToTheUnit) {
  write_index();
  write(sbuf(32, 0, NEURON_DTYPE_F32, 64), kDve);
  Instruction i = copy(sbuf(32, 0x1000, NEURON_DTYPE_F32, 20), named(0));
  i.src0.base = NEURON_V4_SBUF_PARTITION_BYTES - 4;
  EXPECT_EQ(code(i, kDve), NEURON_FAULT_NONE);
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
