// SPDX-License-Identifier: Apache-2.0
// Which instructions take 64-bit integers: the sentences that refuse the others, their time, their
// text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/isa/cost.h"
#include "driver/isa/explain.h"
#include "driver/isa/rules.h"
#include "tests/unit/driver/isa/samples.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::isa {
namespace {

using ::testing::HasSubstr;
using testing::immediate;
using testing::pointer;
using testing::sbuf;

constexpr uint8_t kI64 = NEURON_DTYPE_I64, kU64 = NEURON_DTYPE_U64;
constexpr unsigned kIntegerPool = NEURON_ENGINE_POOL, kIntegerDve = NEURON_ENGINE_DVE;

std::string integer_refusal(const Instruction& i, unsigned engine = kIntegerPool,
                            unsigned generation = 3) {
  const Limits limits = limits_of(generation);
  Violation v = check_encoding(testing::raw(i), engine, limits);
  if (!v) v = check_operands(i, engine, limits);
  return v ? describe(v, i) : "accepted";
}

Instruction with(uint16_t opcode, uint8_t type, unsigned sources, unsigned engine = kIntegerPool) {
  Instruction i = testing::make(opcode, engine);
  i.dst = sbuf(0, 64, type);
  if (sources > 0) i.src0 = sbuf(0x400, 64, type);
  if (sources > 1) i.src1 = sbuf(0x800, 64, type);
  return i;
}
Instruction sum(uint8_t type = kI64, unsigned engine = kIntegerPool) {
  Instruction i = with(NEURON_OP_TENSOR_TENSOR, type, 2, engine);
  i.vector.op0 = NEURON_ALU_ADD;
  return i;
}
Instruction shifted(Scalar scalar) {
  Instruction i = with(NEURON_OP_TENSOR_SCALAR, kI64, 1);
  i.vector.op0 = NEURON_ALU_ADD;
  i.scalar0 = scalar;
  return i;
}

TEST(Integers64, ArePoolsFromGeneration3On) {
  EXPECT_EQ(integer_refusal(sum(kI64), kIntegerPool, 3), "accepted");
  EXPECT_EQ(integer_refusal(sum(kU64), kIntegerPool, 4), "accepted");
  EXPECT_EQ(
      integer_refusal(sum(kU64), kIntegerPool, 2),
      "tensor_tensor: dst: engines compute on elements of 1, 2 or 4 bytes; only Pool computes "
      "on i64 and u64, from generation 3 on; found u64 at byte offset 0x24, rule R3 "
      "[OPERAND_DTYPE]");
  EXPECT_THAT(integer_refusal(sum(kI64, kIntegerDve), kIntegerDve, 4),
              HasSubstr("only Pool computes on i64 and u64"));
  Instruction copy = with(NEURON_OP_TENSOR_COPY, kI64, 1, NEURON_ENGINE_ACTIVATION);
  EXPECT_THAT(integer_refusal(copy, NEURON_ENGINE_ACTIVATION, 4), HasSubstr("only Pool computes"));
  for (const auto& sample : testing::samples_of(4)) {
    const unsigned group = sample.instruction.group();
    if (group < 2 || group > 5 || sample.engine == kIntegerPool) continue;
    for (unsigned place = 0; place < 3; ++place) {
      Instruction i = sample.instruction;
      Operand* operands[] = {&i.dst, &i.src0, &i.src1};
      if (!operands[place]->present()) continue;
      operands[place]->dtype = kI64;
      EXPECT_NE(integer_refusal(i, sample.engine, 4), "accepted") << disassemble(i);
    }
  }
}

TEST(Integers64, OfThemPoolHasTheInstructionsThatTheSentenceNames) {
  const std::string names = integer_refusal(with(NEURON_OP_CUSTOM, kI64, 1));
  for (const auto& sample : testing::samples_of(3)) {
    if (sample.engine != kIntegerPool || sample.instruction.group() < 2) continue;
    if (sample.instruction.group() == 6) continue;
    const std::string name = opcode_name(sample.instruction.opcode);
    EXPECT_EQ(takes_int64(sample.instruction.opcode), names.find(" " + name) != std::string::npos)
        << name;
  }
  Instruction bits = with(NEURON_OP_RNG, kU64, 0);
  EXPECT_THAT(integer_refusal(bits), HasSubstr("i64 and u64 only in memset, tensor_copy"));
  Instruction places = with(NEURON_OP_N_GATHER, NEURON_DTYPE_F32, 2);
  places.src1.dtype = kU64;
  EXPECT_THAT(integer_refusal(places), HasSubstr("the indices of n_gather are u32; found u64"));
}

TEST(Integers64, HaveOneTypeInAnInstructionAndTensorCopyConverts) {
  Instruction i = sum();
  i.src1.dtype = NEURON_DTYPE_I32;
  EXPECT_THAT(integer_refusal(i),
              HasSubstr("src1: operands are i64 or u64 together, of one type; convert "
                        "others with tensor_copy; found i32"));
  i.src1.dtype = kU64;
  EXPECT_THAT(integer_refusal(i), HasSubstr("of one type"));
  i.vector.op0 = NEURON_ALU_XOR;
  EXPECT_EQ(integer_refusal(i), "accepted") << "bits have a width only";
  i.src0.dtype = NEURON_DTYPE_U32;
  EXPECT_THAT(integer_refusal(i), HasSubstr("operands of one width"));
  for (const uint8_t type : testing::types_of(3)) {
    Instruction copy = with(NEURON_OP_TENSOR_COPY, kI64, 1);
    copy.dst.dtype = type;
    EXPECT_EQ(integer_refusal(copy), "accepted") << dtype_name(type);
    std::swap(copy.dst.dtype, copy.src0.dtype);
    EXPECT_EQ(integer_refusal(copy), "accepted") << dtype_name(type);
  }
  Instruction packed = with(NEURON_OP_TENSOR_COPY, kI64, 1);
  packed.src0.dtype = NEURON_DTYPE_F8E5X4;
  EXPECT_THAT(integer_refusal(packed, kIntegerPool, 4), HasSubstr("x4 types and scales"));
}

TEST(Integers64, HaveOperationsOfIntegersOnly) {
  Instruction i = sum();
  for (unsigned op = 0; op < 64; ++op) {
    i.vector.op0 = static_cast<uint8_t>(op);
    const bool two_operands = op != NEURON_ALU_BYPASS && !is_unary_alu(op);
    const bool expected = two_operands && (is_integer_alu(op) || is_bit_alu(op));
    EXPECT_EQ(integer_refusal(i) == "accepted", expected) << alu_name(op);
  }
  i.vector.op0 = NEURON_ALU_LOGICAL_AND;
  EXPECT_THAT(integer_refusal(i),
              HasSubstr("on 64-bit integers Pool has add, sub, mul, max, min, abs_max, "
                        "abs_min, comparisons and bit operations"));
  Instruction mean = with(NEURON_OP_PARTITION_REDUCE, kI64, 1);
  mean.dst.parts = 1;
  mean.vector.op0 = NEURON_ALU_AVERAGE;
  EXPECT_THAT(integer_refusal(mean), HasSubstr("on 64-bit integers Pool has"));
  mean.vector.op0 = NEURON_ALU_MAX;
  EXPECT_EQ(integer_refusal(mean), "accepted");
  Instruction reduce = with(NEURON_OP_TENSOR_REDUCE, kI64, 1);
  reduce.dst.size[0] = 1;
  reduce.vector.axes = 1;
  reduce.vector.reduce = NEURON_ALU_LOGICAL_OR;
  EXPECT_THAT(integer_refusal(reduce), HasSubstr("on 64-bit integers Pool has"));
  reduce.vector.reduce = NEURON_ALU_OR;
  EXPECT_EQ(integer_refusal(reduce), "accepted");
  Instruction unary = with(NEURON_OP_TENSOR_SCALAR, kI64, 1);
  unary.vector.op0 = NEURON_ALU_SQUARE;
  EXPECT_THAT(integer_refusal(unary), HasSubstr("on 64-bit integers Pool has"));
  unary.vector.op0 = NEURON_ALU_NOT;
  EXPECT_EQ(integer_refusal(unary), "accepted");
}

TEST(Integers64, HaveIntegersAsScalarsAndImmediatesOf32Bits) {
  for (const uint8_t type :
       {NEURON_DTYPE_I8, NEURON_DTYPE_U8, NEURON_DTYPE_I16, NEURON_DTYPE_U16, NEURON_DTYPE_I32,
        NEURON_DTYPE_U32, NEURON_DTYPE_I64, NEURON_DTYPE_U64}) {
    EXPECT_EQ(integer_refusal(shifted(pointer(0x1000, type))), "accepted") << dtype_name(type);
    const std::string of_immediate = integer_refusal(shifted(immediate(5, type)));
    if (dtype_bytes(type) <= 4) {
      EXPECT_EQ(of_immediate, "accepted") << dtype_name(type);
    } else {
      EXPECT_THAT(of_immediate, HasSubstr("an immediate has 32 bits, extended by the sign of its "
                                          "type; i64 and u64 are behind a pointer; found "));
    }
  }
  EXPECT_THAT(integer_refusal(shifted(testing::number(1))),
              HasSubstr("a scalar of 64-bit integers is an integer; found f32"));
  EXPECT_THAT(integer_refusal(shifted(pointer(0x1000))), HasSubstr("is an integer; found f32"));
  EXPECT_THAT(integer_refusal(shifted(pointer(0x1004, kI64))),
              HasSubstr("multiple of its element size"));
  EXPECT_THAT(
      integer_refusal(shifted(pointer(NEURON_V3_SBUF_PARTITION_BYTES - 4, NEURON_DTYPE_I32))),
      HasSubstr("accepted"));
  EXPECT_THAT(integer_refusal(shifted(pointer(NEURON_V3_SBUF_PARTITION_BYTES, kI64))),
              HasSubstr("must lie in its partition"));
  // A scalar of 64 bits needs operands of 64 bits.
  Instruction narrow = shifted(pointer(0x1000, kI64));
  narrow.dst.dtype = narrow.src0.dtype = NEURON_DTYPE_I32;
  EXPECT_THAT(integer_refusal(narrow), HasSubstr("only where operands of Pool are"));
  Instruction count = with(NEURON_OP_IOTA, kI64, 0);
  count.pattern.size[0] = 64;
  count.scalar0 = pointer(0x1000, kI64);
  EXPECT_EQ(integer_refusal(count), "accepted");
  count.dst.dtype = NEURON_DTYPE_I32;
  EXPECT_THAT(integer_refusal(count),
              HasSubstr("the offset of a pattern is i32, u32 or f32; found i64"));
}

TEST(Integers64, LieAtMultiplesOfEightInTheirPartition) {
  Instruction i = sum();
  i.dst.base = 4;
  EXPECT_THAT(integer_refusal(i),
              HasSubstr("the base must be a multiple of the element size; found 4"));
  i.dst.base = NEURON_V3_SBUF_PARTITION_BYTES - 64 * 8;
  EXPECT_EQ(integer_refusal(i), "accepted");
  i.dst.base += 8;
  EXPECT_THAT(integer_refusal(i),
              HasSubstr("every element must lie in the bytes of an SBUF partition"));
  EXPECT_EQ(integer_refusal(i, kIntegerPool, 4), "accepted")
      << "generation 4 has larger partitions";
}

TEST(Integers64, IndirectOnesAreAsManyAsAPartitionHolds) {
  Instruction i = shifted(immediate(1, NEURON_DTYPE_I32));
  i.src0.set_index({0x20000, 0, NEURON_DTYPE_U16});
  EXPECT_EQ(integer_refusal(i, kIntegerPool, 4), "accepted");
  i.src0.size[0] = i.dst.size[0] = 32769;
  i.dst.step[0] = 0;
  EXPECT_THAT(integer_refusal(i, kIntegerPool, 4),
              HasSubstr("an indirect operand of 64-bit integers has at most 32768 elements"));
}

TEST(Integers64, TakeTwiceTheCyclesOf32BitsBehindTheStart) {
  const auto cycles = [](const Instruction& i) { return cycles_of(i, kIntegerPool, 3); };
  const unsigned start = 150;
  EXPECT_EQ(cycles(sum(NEURON_DTYPE_I32)), start + 2 * 64U);
  EXPECT_EQ(cycles(sum()), start + 4 * 64U);
  Instruction copy = with(NEURON_OP_TENSOR_COPY, kI64, 1);
  EXPECT_EQ(cycles(copy), start + 2 * 64U);
  copy.dst.dtype = NEURON_DTYPE_BF16;
  EXPECT_EQ(cycles(copy), start + 2 * 64U);
  copy.src0.dtype = NEURON_DTYPE_F32;
  EXPECT_EQ(cycles(copy), start + 64U);
  EXPECT_EQ(cycles(with(NEURON_OP_MEMSET, kU64, 0)), start + 2 * 64U);
  Instruction reduce = with(NEURON_OP_PARTITION_REDUCE, kI64, 1);
  EXPECT_EQ(cycles(reduce), start + 2 * 16 * 64U);
  Instruction exchange = with(NEURON_OP_SENDRECV, kU64, 1);
  EXPECT_EQ(cycles(exchange), start + 128 * 64 * 8 / 128U) << "by its bytes";
  // Every second element is 16 bytes away: still the full rate.
  copy = with(NEURON_OP_TENSOR_COPY, kI64, 1);
  copy.src0.step[0] = 2;
  EXPECT_EQ(cycles(copy), start + 2 * 64U);
  copy.src0.step[0] = 3;
  EXPECT_EQ(cycles(copy), start + 4 * 64U);
}

TEST(Integers64, AreExplainedWhereTheyAreTaken) {
  const Explanation taken = explain_opcode(NEURON_OP_TENSOR_TENSOR, kIntegerPool, limits_of(3));
  EXPECT_THAT(to_text(taken), HasSubstr("R3: on Pool, from generation 3 on, also i64 and u64"));
  const Explanation other = explain_opcode(NEURON_OP_TOPK, kIntegerPool, limits_of(3));
  EXPECT_THAT(to_text(other), ::testing::Not(HasSubstr("i64")));
  const Explanation one = explain(sum(), kIntegerPool, limits_of(3));
  EXPECT_EQ(one.problem, "");
  EXPECT_EQ(one.cycles, 150 + 4 * 64U);
  EXPECT_THAT(explain(sum(), kIntegerPool, limits_of(2)).problem,
              HasSubstr("only Pool computes on i64"));
}

}  // namespace
}  // namespace neuron::isa
