// SPDX-License-Identifier: Apache-2.0
// Indirect operands: their fields, which operands may be indirect, where they and indexes lie.
#include "driver/isa/indirection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/isa/cost.h"
#include "driver/isa/explain.h"
#include "tests/unit/driver/isa/samples.h"

namespace neuron::isa {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::psum;
using testing::raw;
using testing::sbuf;
using testing::tile;

constexpr unsigned kDve = NEURON_ENGINE_DVE, kAct = NEURON_ENGINE_ACTIVATION;
constexpr unsigned kPool = NEURON_ENGINE_POOL, kPe = NEURON_ENGINE_PE;
constexpr IndexPlace kIndex{0x2000, 0, NEURON_DTYPE_U16};

Operand by(Operand operand, const IndexPlace& index = kIndex) {
  operand.set_index(index);
  return operand;
}

Instruction copy(const Operand& to, const Operand& from, unsigned engine = kDve) {
  Instruction i = testing::make(NEURON_OP_TENSOR_COPY, engine);
  i.dst = to;
  i.src0 = from;
  return i;
}

// The sentence of the first check that complains; empty if both accept.
std::string refusal(const Instruction& i, unsigned engine, unsigned generation = 4) {
  Violation v = check_encoding(raw(i), engine, limits_of(generation));
  if (!v) v = check_operands(i, engine, limits_of(generation));
  return v ? describe(v, i) : "";
}

TEST(IndirectOperand, HoldsThePlaceOfItsIndexInItsLastDimension) {
  for (const IndexPlace& place :
       {IndexPlace{0, 0, NEURON_DTYPE_U16}, IndexPlace{0x3FFFC, 96, NEURON_DTYPE_U32},
        IndexPlace{0x18000, 32, NEURON_DTYPE_I32}}) {
    const Instruction i = copy(sbuf(0, 64), by(sbuf(0x400, 64), place));
    const Instruction back = decode(raw(i));
    EXPECT_TRUE(back.src0.indirect);
    EXPECT_TRUE(back.src0.index() == place);
    EXPECT_EQ(back.src0.elements(), 64U);
    EXPECT_EQ(raw(back), raw(i));
  }
}

TEST(IndirectOperand, ReadsAsTextWithItsIndex) {
  const Instruction i = copy(by(sbuf(0, 64), {0x3000, 0, NEURON_DTYPE_I32}), by(sbuf(0x400, 64)));
  EXPECT_EQ(refusal(i, kDve), "");
  EXPECT_EQ(disassemble(i, kDve),
            "tensor_copy sbuf[0:128, 0x0] f32 [64 by &sbuf[0, 0x3000] i32] = "
            "sbuf[0:128, 0x400] f32 [64 by &sbuf[0, 0x2000] u16]");
}

TEST(IndirectOperand, NeedsGeneration4) {
  const Instruction i = copy(sbuf(0, 64), by(sbuf(0x400, 64)));
  EXPECT_EQ(refusal(i, kDve), "");
  EXPECT_THAT(refusal(i, kDve, 3), AllOf(HasSubstr("src0: indirect operands need generation 4"),
                                         HasSubstr("rule R7"), HasSubstr("[WRONG_GENERATION]")));
}

struct FieldCase {
  void (*damage)(Operand&);
  const char* words;
};

TEST(IndirectOperand, RefusesFieldsThatMeanNothing) {
  const FieldCase cases[] = {
      {[](Operand& o) { o.ndim = 2; }, "has one free dimension"},
      {[](Operand& o) { o.step[0] = 2; }, "must be 1; found 2"},
      {[](Operand& o) { o.step[0] = -1; }, "must be 1; found 65535"},
      {[](Operand& o) { o.size[1] = 4; }, "unused dimension"},
      {[](Operand& o) { o.step[2] = 4; }, "unused dimension"},
      {[](Operand& o) { o.size[3] |= 0x400; }, "bits 15:10"},
      {[](Operand& o) {
         o.set_index({0x2000, 0, NEURON_DTYPE_I16});
       },
       "u16 (5), i32 (8) or u32"},
      {[](Operand& o) {
         o.set_index({0x2000, 0, NEURON_DTYPE_NONE});
       },
       "u16 (5), i32 (8) or u32"},
      {[](Operand& o) {
         o.set_index({0x2001, 0, NEURON_DTYPE_U16});
       },
       "multiple of the size"},
      {[](Operand& o) {
         o.set_index({0x3FFFA, 0, NEURON_DTYPE_U16});
       },
       "SBUF partition"},
      {[](Operand& o) { o.base = 0x40000; }, "every element must lie"},
  };
  for (const FieldCase& c : cases) {
    Instruction i = copy(sbuf(0, 64), by(sbuf(0x400, 64)));
    c.damage(i.src0);
    EXPECT_THAT(refusal(i, kDve), HasSubstr(c.words)) << disassemble(i, kDve);
  }
}

TEST(IndirectOperand, IsOneOfThoseThatTheInstructionGathersOrScatters) {
  constexpr unsigned dst = 1, a = 2, b = 4;
  const std::vector<std::pair<uint16_t, unsigned>> expected = {
      {NEURON_OP_LDWEIGHTS, a},
      {NEURON_OP_MATMUL, dst | a},
      {NEURON_OP_TRANSPOSE, dst | a},
      {NEURON_OP_LDWEIGHTS_MX, a | b},
      {NEURON_OP_MATMUL_MX, dst | a | b},
      {NEURON_OP_TENSOR_TENSOR, dst | a},
      {NEURON_OP_TENSOR_SCALAR, dst | a},
      {NEURON_OP_TENSOR_SCALAR_REDUCE, dst | a},
      {NEURON_OP_TENSOR_SCALAR_CUMULATIVE, dst | a},
      {NEURON_OP_TENSOR_REDUCE, dst | a},
      {NEURON_OP_TENSOR_COPY, dst | a},
      {NEURON_OP_COPY_PREDICATED, dst | b},
      {NEURON_OP_EXPONENTIAL, dst | a},
      {NEURON_OP_ACTIVATE, dst | a},
      {NEURON_OP_ACTIVATE2, dst | a},
  };
  for (const OpcodeInfo& info : all_opcodes()) {
    unsigned wanted = 0;
    for (const auto& [opcode, mask] : expected) wanted = opcode == info.opcode ? mask : wanted;
    const unsigned engines = info.engines | info.engines_v3;
    unsigned found = 0;
    for (unsigned e = 0; e < 6; ++e) {
      if ((engines >> e & 1) != 0) found |= indirect_operands(info.opcode, e);
    }
    EXPECT_EQ(found, wanted) << info.name;
  }
}

TEST(IndirectOperand, IsRefusedWhereTheInstructionHasNone) {
  Instruction i = testing::make(NEURON_OP_TENSOR_TENSOR, kDve);
  i.dst = sbuf(0, 64);
  i.src0 = sbuf(0x400, 64);
  i.src1 = by(sbuf(0x800, 64));
  i.vector.op0 = NEURON_ALU_ADD;
  EXPECT_THAT(refusal(i, kDve), AllOf(HasSubstr("src1: this operand"), HasSubstr("rule R7"),
                                      HasSubstr("[OP_NOT_ALLOWED]")));
  EXPECT_THAT(refusal(copy(sbuf(0, 64), by(sbuf(0x400, 64)), kPool), kPool),
              HasSubstr("cannot be indirect on this engine"));
  EXPECT_EQ(refusal(copy(sbuf(0, 64), by(sbuf(0x400, 64)), kAct), kAct), "");
}

TEST(IndirectOperand, StartsOnThePartitionOfItsIndex) {
  const Operand to = tile(NEURON_SPACE_SBUF, 64, 32, 0, NEURON_DTYPE_F32, {8});
  const Operand from = tile(NEURON_SPACE_SBUF, 32, 32, 0x400, NEURON_DTYPE_F32, {8});
  EXPECT_EQ(refusal(copy(to, by(from, {0x2000, 32, NEURON_DTYPE_U16})), kDve), "");
  EXPECT_THAT(refusal(copy(to, by(from, {0x2000, 64, NEURON_DTYPE_U16})), kDve),
              AllOf(HasSubstr("must start on the partition of its index; found 32"),
                    HasSubstr("[OPERAND_PARTITION]")));
  // The index of a destination goes along with a source in SBUF, or with one by an index.
  EXPECT_EQ(refusal(copy(by(to, {0x2000, 32, NEURON_DTYPE_U16}), from), kDve), "");
  EXPECT_THAT(refusal(copy(by(to, {0x2000, 64, NEURON_DTYPE_U16}), from), kDve),
              HasSubstr("must start on the partition of src0; found 64"));
  Operand deep = from;
  deep.space = NEURON_SPACE_PSUM;
  EXPECT_EQ(refusal(copy(by(to, {0x2000, 64, NEURON_DTYPE_U16}), deep), kDve), "");
  deep.set_index({0x3000, 32, NEURON_DTYPE_U16});
  EXPECT_THAT(refusal(copy(by(to, {0x2000, 64, NEURON_DTYPE_U16}), deep), kDve),
              HasSubstr("must start on the partition of src0"));
}

TEST(IndirectOperand, HasWholeGroupsOfItsIndexInsideSbuf) {
  // 20 partitions from 96 on have two groups of 16: the index ends with partition 127. An index
  // that starts on 96 for 40 partitions would go beyond.
  Operand wide = tile(NEURON_SPACE_PSUM, 64, 40, 0, NEURON_DTYPE_F32, {16});
  const Operand from = tile(NEURON_SPACE_PSUM, 64, 40, 0x400, NEURON_DTYPE_F32, {16});
  EXPECT_EQ(refusal(copy(by(wide, {0x2000, 64, NEURON_DTYPE_U16}), from), kDve), "");
  EXPECT_THAT(refusal(copy(by(wide, {0x2000, 96, NEURON_DTYPE_U16}), from), kDve),
              AllOf(HasSubstr("must end with partition 127"), HasSubstr("found 144")));
  EXPECT_EQ(index_partitions(40, 3, 16), 35U);
  EXPECT_EQ(index_partitions(40, 100, 16), 48U);
  EXPECT_EQ(index_columns(100, 16), 7U);
}

TEST(IndirectOperand, OfActivationIsNotScatteredIntoPsum) {
  EXPECT_THAT(refusal(copy(by(psum(0, 64)), sbuf(0, 64), kAct), kAct),
              AllOf(HasSubstr("Activation scatters into SBUF only"), HasSubstr("PSUM")));
  EXPECT_EQ(refusal(copy(by(psum(0, 64)), sbuf(0, 64)), kDve), "");
  EXPECT_EQ(refusal(copy(sbuf(0, 64), by(psum(0, 64)), kAct), kAct), "");
}

TEST(IndirectOperand, OfThePredicateRulesTheIndexOfTheDestination) {
  Instruction i = testing::make(NEURON_OP_COPY_PREDICATED, kDve);
  i.dst =
      by(tile(NEURON_SPACE_SBUF, 0, 32, 0, NEURON_DTYPE_F32, {8}), {0x2000, 64, NEURON_DTYPE_U16});
  i.src0 = tile(NEURON_SPACE_SBUF, 0, 32, 0x400, NEURON_DTYPE_F32, {8});
  i.src1 = tile(NEURON_SPACE_SBUF, 64, 32, 0x800, NEURON_DTYPE_U8, {8});
  EXPECT_EQ(refusal(i, kDve), "");
  i.dst.set_index({0x2000, 0, NEURON_DTYPE_U16});
  EXPECT_THAT(refusal(i, kDve), HasSubstr("partition of the predicate, src1"));
}

TEST(IndirectOperand, OfThePeIsOfSmallTypesOnTheWholeArray) {
  Instruction i = testing::make(NEURON_OP_MATMUL, kPe);
  i.dst = by(psum(0, 64));
  i.src0 = by(sbuf(0x4000, 64, NEURON_DTYPE_BF16));
  EXPECT_EQ(refusal(i, kPe), "");
  i.src0.dtype = NEURON_DTYPE_F32;
  EXPECT_THAT(refusal(i, kPe), AllOf(HasSubstr("PE gathers matrices of f16"), HasSubstr("f32")));
  i.src0 = tile(NEURON_SPACE_SBUF, 0, 64, 0x4000, NEURON_DTYPE_BF16, {64});
  i.dst.parts = 64;
  i.pe.rows = i.pe.columns = 1;
  EXPECT_EQ(refusal(i, kPe), "");
  i.pe.row = 2;
  EXPECT_THAT(refusal(i, kPe), HasSubstr("on a tile of the array at 0x0 only"));
}

TEST(IndirectOperand, OfMxSharesItsIndexWithItsScales) {
  Instruction i = testing::make(NEURON_OP_LDWEIGHTS_MX, kPe);
  i.src0 = by(sbuf(0, 64, NEURON_DTYPE_F8E5X4));
  i.src1 = by(sbuf(0x1000, 64, NEURON_DTYPE_U8));
  EXPECT_EQ(refusal(i, kPe), "");
  i.src1.set_index({0x2002, 0, NEURON_DTYPE_U16});
  EXPECT_THAT(refusal(i, kPe), HasSubstr("have the same index, or both have none"));
  i.src1 = sbuf(0x1000, 64, NEURON_DTYPE_U8);
  EXPECT_THAT(refusal(i, kPe), HasSubstr("have the same index, or both have none"));
}

TEST(IndirectOperand, TakesTheTimeOfALongStep) {
  const auto two = [](const Operand& from) {
    return cycles_of(copy(sbuf(0, 512, NEURON_DTYPE_BF16), from), kDve, 4);
  };
  Operand strided = sbuf(0x4000, 512, NEURON_DTYPE_BF16);
  strided.step[0] = 16;
  EXPECT_EQ(two(by(sbuf(0x4000, 512, NEURON_DTYPE_BF16))), two(strided));
  EXPECT_GT(two(strided), two(sbuf(0x4000, 512, NEURON_DTYPE_BF16)));
}

TEST(IndirectOperand, IsARuleThatExplainTells) {
  EXPECT_THAT(to_text(explain_opcode(NEURON_OP_TENSOR_TENSOR, kDve, limits_of(4))),
              HasSubstr("R7: from generation 4 on dst, src0 may be indirect"));
  EXPECT_THAT(to_text(explain_opcode(NEURON_OP_RECIPROCAL, kDve, limits_of(4))),
              Not(HasSubstr("R7")));
}

TEST(IndirectOperand, KeepsItsIndexWhenRegistersBindBaseAndSize) {
  Instruction i = copy(sbuf(0, 64), by(sbuf(0x400, 64)));
  i.bind[0] = {5, NEURON_BIND_BASE, 1, NEURON_BIND_ADD};
  i.bind[1] = {6, NEURON_BIND_SIZE0, 1, NEURON_BIND_REPLACE};
  EXPECT_EQ(refusal(i, kDve), "");
  i.bind[1].item = NEURON_BIND_STEP0 + 3;
  EXPECT_THAT(refusal(i, kDve), HasSubstr("bound to a dimension that is unused"));
}

}  // namespace
}  // namespace neuron::isa
