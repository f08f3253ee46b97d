// SPDX-License-Identifier: Apache-2.0
// One broken rule of each instruction at a time: the code, the place and the words.
#include "driver/isa/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/driver/isa/samples.h"

namespace neuron::isa {
namespace {

using testing::number;
using testing::pointer;
using testing::raw;

struct RuleCase {
  uint16_t opcode;
  void (*damage)(Instruction&);
  unsigned code;
  unsigned offset;
  const char* words;  // of the sentence
};

// The first check that complains, in the order in which a core runs them.
void expect_each(const std::vector<RuleCase>& cases) {
  for (const RuleCase& c : cases) {
    bool found = false;
    for (const auto& sample : testing::samples()) {
      if (sample.instruction.opcode != c.opcode) continue;
      found = true;
      Instruction i = sample.instruction;
      c.damage(i);
      Violation v = check_encoding(raw(i), sample.engine, limits_of(sample.generation));
      if (!v) v = check_operands(i, sample.engine, limits_of(sample.generation));
      const std::string sentence = describe(v, i);
      EXPECT_STREQ(fault_name(v.code), fault_name(c.code)) << c.words << ": " << sentence;
      EXPECT_EQ(v.offset, c.offset) << sentence;
      EXPECT_THAT(sentence, ::testing::HasSubstr(c.words));
      EXPECT_THAT(sentence, ::testing::HasSubstr("; found "));
    }
    EXPECT_TRUE(found) << "no sample of " << opcode_name(c.opcode);
  }
}

using I = Instruction;
constexpr unsigned kField = NEURON_FAULT_ILLEGAL_FIELD, kOp = NEURON_FAULT_OP_NOT_ALLOWED;
constexpr unsigned kType = NEURON_FAULT_OPERAND_DTYPE, kShape = NEURON_FAULT_OPERAND_SHAPE;
constexpr unsigned kRange = NEURON_FAULT_OPERAND_RANGE, kSpace = NEURON_FAULT_OPERAND_SPACE;
constexpr unsigned kPartition = NEURON_FAULT_OPERAND_PARTITION;

TEST(InstructionRules, OfAccumulatingVectorInstructionsAreEnforced) {
  constexpr uint16_t reduce = NEURON_OP_TENSOR_SCALAR_REDUCE;
  constexpr uint16_t cumulative = NEURON_OP_TENSOR_SCALAR_CUMULATIVE;
  constexpr uint16_t scan = NEURON_OP_TENSOR_TENSOR_SCAN;
  expect_each({
      {reduce, [](I& i) { i.vector.op0 = NEURON_ALU_AND; }, kOp, 0x78, "arithmetic"},
      {reduce, [](I& i) { i.vector.op0 = NEURON_ALU_ABS; }, kField, 0x68, "takes no scalar"},
      {reduce, [](I& i) { i.vector.reduce = NEURON_ALU_SUB; }, kOp, 0x79, "add, mul, max or min"},
      {reduce, [](I& i) { i.vector.reduce_command = 5; }, kField, 0x7A, "0 to 4"},
      {reduce, [](I& i) { i.vector.reduce_command = 4; }, kField, 0x70, "load_reduce"},
      {reduce, [](I& i) { i.scalar1 = number(1); }, kField, 0x70, "no other command"},
      {reduce,
       [](I& i) {
         i.vector.reduce_command = 4;
         i.scalar1 = pointer(0x30000);
       },
       kRange, 0x70, "its partition"},
      {cumulative, [](I& i) { i.vector.op1 = NEURON_ALU_POW; }, kOp, 0x78, "cumulative"},
      {cumulative, [](I& i) { i.vector.op0 = NEURON_ALU_SHL; }, kOp, 0x78, "arithmetic"},
      {cumulative, [](I& i) { i.vector.reduce_command = 1; }, kOp, 0x7A, "load_reduce"},
      {cumulative, [](I& i) { i.vector.reduce_command = 2; }, kField, 0x70, "scalar1"},
      {cumulative, [](I& i) { i.scalar1 = {}; }, kField, 0x70, "scalar1"},
      {cumulative, [](I& i) { i.dst.dtype = NEURON_DTYPE_I32; }, kType, 0x24, "32-bit integers"},
      {cumulative, [](I& i) { i.src0.dtype = NEURON_DTYPE_U32; }, kType, 0x3C, "32-bit integers"},
      {cumulative, [](I& i) { i.scalar1.value = 0x30000; }, kRange, 0x70, "its partition"},
      {scan, [](I& i) { i.vector.op0 = NEURON_ALU_OR; }, kOp, 0x78, "arithmetic"},
      {scan, [](I& i) { i.vector.op1 = NEURON_ALU_BYPASS; }, kOp, 0x78, "two operands"},
      {scan, [](I& i) { i.vector.op1 = NEURON_ALU_POW; }, kOp, 0x78, "Pool only"},
      {scan, [](I& i) { i.src0.space = NEURON_SPACE_PSUM; }, kSpace, 0x55, "one input"},
      {scan, [](I& i) { i.scalar0.dtype = NEURON_DTYPE_U32; }, kType, 0x6C, "32-bit float"},
  });
}

TEST(InstructionRules, OfPredicatesStatisticsAndSearchesAreEnforced) {
  constexpr uint16_t predicated = NEURON_OP_COPY_PREDICATED, replace = NEURON_OP_MATCH_REPLACE8;
  constexpr uint16_t find = NEURON_OP_FIND_INDEX8;
  expect_each({
      {predicated, [](I& i) { i.src0 = {}; }, kField, 0x6C, "one source"},
      {predicated, [](I& i) { i.scalar0 = number(1); }, kField, 0x6C, "one source"},
      {predicated, [](I& i) { i.src1.dtype = NEURON_DTYPE_I8; }, kType, 0x54, "u8, u16 or u32"},
      {predicated, [](I& i) { i.src0.dtype = NEURON_DTYPE_TF32; }, kType, 0x3C, "keeps"},
      {predicated,
       [](I& i) {
         i.src0 = {};
         i.scalar0 = pointer(0x1000, NEURON_DTYPE_I32);
       },
       kType, 0x6C, "keeps"},
      {predicated, [](I& i) { i.src0.space = i.src1.space = NEURON_SPACE_PSUM; }, kSpace, 0x55,
       "one input"},
      {NEURON_OP_BN_STATS, [](I& i) { i.src0.size[0] = 513; }, kShape, 0x40, "512 elements"},
      {NEURON_OP_BN_STATS, [](I& i) { i.dst.size[0] = 5; }, kShape, 0x28, "6 elements"},
      {NEURON_OP_BN_STATS, [](I& i) { i.dst.parts = 64; }, kShape, 0x3B, "as many partitions"},
      {NEURON_OP_BN_AGGR, [](I& i) { i.src0.size[0] = 13; }, kShape, 0x40, "triples"},
      {NEURON_OP_BN_AGGR, [](I& i) { i.dst.size[0] = 3; }, kShape, 0x28, "2 elements"},
      {NEURON_OP_MAX8, [](I& i) { i.src0.size[0] = 7; }, kShape, 0x40, "8 to 16384"},
      {NEURON_OP_MAX8, [](I& i) { i.src0.size[0] = 16385; }, kShape, 0x40, "8 to 16384"},
      {NEURON_OP_MAX8, [](I& i) { i.dst.size[0] = 9; }, kShape, 0x28, "8 elements"},
      {find, [](I& i) { i.src1.size[0] = 7; }, kShape, 0x58, "8 values"},
      {find, [](I& i) { i.dst.dtype = NEURON_DTYPE_I32; }, kType, 0x24, "u16 or u32"},
      {find, [](I& i) { i.dst.size[0] = 7; }, kShape, 0x28, "8 elements"},
      {find, [](I& i) { i.src1.parts = 64; }, kShape, 0x53, "as many partitions"},
      {replace, [](I& i) { i.scalar0 = number(1); }, kField, 0x6C, "behind a pointer"},
      {replace, [](I& i) { i.scalar1 = number(1); }, kField, 0x74, "behind a pointer"},
      {replace, [](I& i) { i.scalar1.dtype = NEURON_DTYPE_F32; }, kType, 0x74, "u16 or u32"},
      {replace, [](I& i) { i.scalar0.value = 0x30000 - 28; }, kRange, 0x68, "8 values"},
      {replace, [](I& i) { i.scalar1.value = 0x30000 - 28; }, kRange, 0x70, "8 values"},
      {replace, [](I& i) { i.scalar0.value = 2; }, kType, 0x68, "multiple"},
      {replace, [](I& i) { i.scalar0.start = 32; }, kPartition, 0x6D, "start at 0"},
      {replace, [](I& i) { i.dst.size[0] = 63; }, kShape, 0x40, "as many elements"},
  });
}

TEST(InstructionRules, OfMovingAndRandomInstructionsAreEnforced) {
  constexpr uint16_t shuffle = NEURON_OP_STREAM_SHUFFLE, blocks = NEURON_OP_TRANSPOSE32;
  constexpr uint16_t seed = NEURON_OP_SET_RNG_SEED;
  expect_each({
      {shuffle, [](I& i) { i.shuffle[5] = 32; }, kField, 0x55, "0 to 31, or 255"},
      {shuffle, [](I& i) { i.dst.dtype = NEURON_DTYPE_I32; }, kType, 0x24, "keeps"},
      {shuffle, [](I& i) { i.dst.size[0] = 63; }, kShape, 0x40, "as many elements"},
      {blocks, [](I& i) { i.dst.dtype = NEURON_DTYPE_I32; }, kType, 0x24, "keeps"},
      {blocks, [](I& i) { i.src0.size[0] = 40; }, kShape, 0x40, "multiples of 32"},
      {blocks, [](I& i) { i.src0.parts = 40; }, kShape, 0x3B, "multiples of 32"},
      {blocks, [](I& i) { i.dst.parts = 64; }, kShape, 0x3B, "as many partitions"},
      {blocks,
       [](I& i) {
         i.src0.parts = i.dst.parts = 20;
         i.src0.size[0] = i.dst.size[0] = 12;
       },
       kShape, 0x23, "transposed block"},
      {blocks,
       [](I& i) {
         i.src0.parts = 20;
         i.dst.parts = i.src0.size[0] = i.dst.size[0] = 12;
       },
       kShape, 0x28, "transposed block"},
      {NEURON_OP_DROPOUT, [](I& i) { i.dst.dtype = NEURON_DTYPE_BF16; }, kType, 0x24, "keeps"},
      {NEURON_OP_DROPOUT, [](I& i) { i.scalar0 = {}; }, kField, 0x6C, "needs this scalar"},
      {NEURON_OP_RNG, [](I& i) { i.dst.dtype = NEURON_DTYPE_F32; }, kType, 0x24, "integers"},
      {seed, [](I& i) { i.src0.dtype = NEURON_DTYPE_I32; }, kType, 0x3C, "u32"},
      {seed, [](I& i) { i.src0.parts = 2; }, kShape, 0x3B, "one element"},
      {seed, [](I& i) { i.src0.size[0] = 2; }, kShape, 0x40, "one element"},
      {NEURON_OP_MEMSET,
       [](I& i) {
         i.dst.size = {1024, 1025, 0, 0};
         i.dst.step = {0, 0, 0, 0};
         i.dst.ndim = 2;
       },
       kShape, 0x28, "1048576"},
      {NEURON_OP_LDWEIGHTS, [](I& i) { i.pe.rows = 1; }, kShape, 0x3B, "rows"},
      {NEURON_OP_LDWEIGHTS, [](I& i) { i.pe.columns = 1; }, kShape, 0x40, "columns"},
      {NEURON_OP_MATMUL, [](I& i) { i.pe.columns = 1; }, kShape, 0x23, "columns"},
      {NEURON_OP_LOAD_TABLE, [](I& i) { i.address.count = 2; }, kField, 0x2C, "one address"},
      {NEURON_OP_LOAD_TABLE, [](I& i) { i.address.addr = 2; }, kType, 0x20, "multiple of 4"},
      {NEURON_OP_CC_TRIGGER, [](I& i) { i.address.stride = 2; }, kType, 0x28, "multiple of 4"},
  });
}

TEST(InstructionRules, OfPoolAreEnforced) {
  constexpr uint16_t select = NEURON_OP_AFFINE_SELECT, reduce = NEURON_OP_PARTITION_REDUCE;
  constexpr uint16_t local = NEURON_OP_LOCAL_GATHER, gather = NEURON_OP_N_GATHER;
  constexpr uint16_t bounds = NEURON_OP_SEQUENCE_BOUNDS, topk = NEURON_OP_TOPK;
  expect_each({
      {NEURON_OP_IOTA, [](I& i) { i.scalar0 = pointer(0x30000); }, kRange, 0x68, "its partition"},
      {NEURON_OP_IOTA, [](I& i) { i.scalar0 = pointer(0, NEURON_DTYPE_U8); }, kType, 0x6C,
       "i32, u32 or f32"},
      {select, [](I& i) { i.vector.op0 = NEURON_ALU_ADD; }, kOp, 0x78, "compares"},
      {select, [](I& i) { i.pattern.size[0] = 32; }, kShape, 0x60, "pattern"},
      {select, [](I& i) { i.pattern.step[2] = 1; }, kField, 0x58, "unused dimension"},
      {select, [](I& i) { i.scalar0.dtype = NEURON_DTYPE_I32; }, kType, 0x6C, "32-bit float"},
      {select, [](I& i) { i.scalar1.dtype = NEURON_DTYPE_U16; }, kType, 0x74, "i32, u32 or f32"},
      {select, [](I& i) { i.src0.size[0] = 63; }, kShape, 0x40, "as many elements"},
      {reduce, [](I& i) { i.vector.op0 = NEURON_ALU_MIN; }, kOp, 0x78, "add, average, max"},
      {reduce, [](I& i) { i.dst.parts = 2; }, kShape, 0x23, "become one"},
      {reduce, [](I& i) { i.dst.size[0] = 63; }, kShape, 0x28, "as many elements"},
      {reduce, [](I& i) { i.vector.op0 = NEURON_ALU_OR; }, kType, 0x24, "integer types"},
      {local, [](I& i) { i.pool.elements = 6; }, kField, 0x79, "0 to 5"},
      {local, [](I& i) { i.pool.count = 0; }, kField, 0x7A, "at least one index"},
      {local, [](I& i) { i.pool.count = 65; }, kShape, 0x7A, "no more indices"},
      {local, [](I& i) { i.pool.count = 39; }, kShape, 0x28, "valid indices"},
      {local, [](I& i) { i.src1.dtype = NEURON_DTYPE_U32; }, kType, 0x54, "u16"},
      {local, [](I& i) { i.src1.size[0] = 257; }, kShape, 0x58, "4096"},
      {local, [](I& i) { i.dst.dtype = NEURON_DTYPE_I32; }, kType, 0x24, "keeps"},
      {local, [](I& i) { i.dst.parts = i.src0.parts = i.src1.parts = 24; }, kShape, 0x23,
       "multiple of 16"},
      {local, [](I& i) { i.src0.size[0] = 1; }, kShape, 0x40, "at least the elements"},
      {gather, [](I& i) { i.src1.dtype = NEURON_DTYPE_I32; }, kType, 0x54, "u32"},
      {gather, [](I& i) { i.src1.size[0] = 15; }, kShape, 0x58, "one index for each"},
      {gather, [](I& i) { i.dst.dtype = NEURON_DTYPE_I32; }, kType, 0x24, "keeps"},
      {bounds, [](I& i) { i.src0.dtype = NEURON_DTYPE_I16; }, kType, 0x3C, "f32 and i32"},
      {bounds, [](I& i) { i.src0.parts = 2; }, kShape, 0x3B, "one partition"},
      {bounds, [](I& i) { i.dst.size[0] = 63; }, kShape, 0x28, "start and an end"},
      {topk, [](I& i) { i.dst.dtype = NEURON_DTYPE_F16; }, kType, 0x24, "bf16"},
      {topk, [](I& i) { i.src1.dtype = NEURON_DTYPE_I32; }, kType, 0x54, "u16 or u32"},
      {topk, [](I& i) { i.pool.count = 0; }, kField, 0x7A, "1 to 32767"},
      {topk, [](I& i) { i.vector.imm = 7; }, kShape, 0x7C, "8 to 65535"},
      {topk, [](I& i) { i.pool.count = 1001; }, kShape, 0x7A, "more elements than"},
      {topk, [](I& i) { i.src0.size[0] = 62; }, kShape, 0x40, "sixteenth"},
      {topk, [](I& i) { i.dst.size[0] = 3; }, kShape, 0x28, "sixteenth"},
      {topk, [](I& i) { i.src1.size[0] = 3; }, kShape, 0x58, "sixteenth"},
      {topk, [](I& i) { i.dst.parts = i.src0.parts = i.src1.parts = 8; }, kShape, 0x23,
       "multiple of 16"},
      {NEURON_OP_CUSTOM, [](I& i) { i.src0.space = NEURON_SPACE_PSUM; }, kSpace, 0x3D, "Pool"},
  });
}

TEST(InstructionRules, OfInstructionsAtWhichTwoCoresMeetAreEnforced) {
  constexpr uint16_t barrier = NEURON_OP_BARRIER, exchange = NEURON_OP_SENDRECV;
  std::vector<RuleCase> cases;
  for (const uint16_t opcode : {barrier, exchange}) {
    const std::vector<RuleCase> both = {
        {opcode, [](I& i) { i.scalar0.value = 7; }, kField, 0x68, "8 to 15"},
        {opcode, [](I& i) { i.scalar0.value = 16; }, kField, 0x68, "8 to 15"},
        {opcode, [](I& i) { i.scalar0.kind = NEURON_SCALAR_REGISTER; }, kField, 0x68, "8 to 15"},
        {opcode,
         [](I& i) {
           i.bind[0] = {3, NEURON_BIND_SCALAR, 0, NEURON_BIND_REPLACE};
         },
         kField, 0x18, "no register"},
        {opcode,
         [](I& i) {
           i.bind[2] = {3, NEURON_BIND_SCALAR, 0, NEURON_BIND_ADD};
         },
         kField, 0x1C, "no register"},
        {opcode,
         [](I& i) {
           i.wait[0] = {20, NEURON_WAIT_GE, false, false, 1};
         },
         kField, 0x08, "wait0 must be empty"},
        {opcode, [](I& i) { i.wait[1].index = 10; }, kField, 0x0C, "semaphore >= 1"},
        {opcode, [](I& i) { i.wait[1].value = 2; }, kField, 0x0C, "semaphore >= 1"},
        {opcode, [](I& i) { i.wait[1] = {}; }, kField, 0x0C, "semaphore >= 1"},
        {opcode,
         [](I& i) {
           i.update[0] = {20, NEURON_UPDATE_INC, true, false, 0};
         },
         kField, 0x10, "no update0"},
        {opcode, [](I& i) { i.update[1].at_complete = false; }, kField, 0x14, "at completion"},
        {opcode, [](I& i) { i.update[1].operation = NEURON_UPDATE_INC; }, kField, 0x14,
         "must decrement"},
    };
    cases.insert(cases.end(), both.begin(), both.end());
  }
  expect_each(cases);
  expect_each({
      {exchange, [](I& i) { i.dst.dtype = NEURON_DTYPE_I32; }, kType, 0x24, "keeps"},
      {exchange, [](I& i) { i.src0.size[0] = 63; }, kShape, 0x40, "as many elements"},
      {exchange, [](I& i) { i.src0.parts = 64; }, kShape, 0x3B, "as many partitions"},
  });
}

TEST(InstructionRules, OfWhatGenerations3And4AddToVectorAreEnforced) {
  constexpr uint16_t select = NEURON_OP_SELECT_REDUCE, range = NEURON_OP_RANGE_SELECT;
  constexpr uint16_t quantise = NEURON_OP_QUANTIZE_MX, random = NEURON_OP_RAND2;
  constexpr uint16_t exponential = NEURON_OP_EXPONENTIAL;
  expect_each({
      {select, [](I& i) { i.vector.reduce = NEURON_ALU_ADD; }, kOp, 0x79, "max only"},
      {select, [](I& i) { i.vector.reduce_command = 4; }, kOp, 0x7A, "initial value"},
      {select, [](I& i) { i.vector.reduce_command = 5; }, kField, 0x7A, "0 to 4"},
      {select, [](I& i) { i.scalar0.dtype = NEURON_DTYPE_BF16; }, kType, 0x6C, "f32"},
      {range, [](I& i) { i.vector.op0 = NEURON_ALU_NE; }, kOp, 0x78, "eq, gt, ge, lt or le"},
      {range, [](I& i) { i.vector.op1 = NEURON_ALU_ADD; }, kOp, 0x78, "eq, gt, ge, lt or le"},
      {range, [](I& i) { i.scalar0.value = 0x38000; }, kRange, 0x68, "its partition"},
      {range, [](I& i) { i.scalar0.dtype = NEURON_DTYPE_F16; }, kType, 0x6C, "bounds"},
      {exponential, [](I& i) { i.vector.reduce = NEURON_ALU_MAX; }, kOp, 0x79, "add only"},
      {exponential, [](I& i) { i.scalar0.value = 0x40000; }, kRange, 0x68, "its partition"},
      {exponential, [](I& i) { i.vector.reduce_command = 4; }, kField, 0x70, "load_reduce"},
      {exponential, [](I& i) { i.scalar1 = number(1); }, kField, 0x70, "no other command"},
      {range, [](I& i) { i.vector.reduce_command = 4; }, kOp, 0x7A, "initial value"},
      {quantise, [](I& i) { i.vector.imm = 4; }, kField, 0x7C, "quarter"},
      {quantise, [](I& i) { i.dst.parts = i.src0.parts = i.src1.parts = 33; }, kShape, 0x3B,
       "32, 64, 96 or 128"},
      {quantise, [](I& i) { i.src1.start = 32; }, kPartition, 0x52, "must start at 0"},
      {random, [](I& i) { i.dst.dtype = NEURON_DTYPE_I32; }, kType, 0x24, "float"},
      {random, [](I& i) { i.scalar1.dtype = NEURON_DTYPE_BF16; }, kType, 0x74, "f32"},
  });
}

TEST(InstructionRules, OfDescriptorMakersAreEnforced) {
  constexpr uint16_t make = NEURON_OP_DMA_GENERATE, gather = NEURON_OP_DMA_GATHER;
  constexpr uint16_t scatter = NEURON_OP_DMA_SCATTER;
  constexpr unsigned later = NEURON_FAULT_WRONG_GENERATION;
  expect_each({
      {make, [](I& i) { i.dma.operation = 7; }, kField, 0x70, "0 to 6"},
      {make, [](I& i) { i.dma.from_type = 0; }, kField, 0x70, "listed"},
      {make, [](I& i) { i.dma.to_type = NEURON_DTYPE_F8E4FN; }, later, 0x71, "generation 4"},
      {make, [](I& i) { i.dma.accumulate = true; }, kOp, 0x72, "fma, add, min and max"},
      {make, [](I& i) { i.dma.generator = true; }, later, 0x72, "generation 3"},
      {make, [](I& i) { i.dma.priority = 1; }, later, 0x72, "generation 4"},
      {make, [](I& i) { i.dma.mask = 0; }, kField, 0x74, "take part"},
      {make, [](I& i) { i.dma.signal = false; }, kField, 0x76, "without signal"},
      {make, [](I& i) { i.dma.operation = 0; }, kType, 0x71, "keep the data type"},
      {make, [](I& i) { i.dma.to_type = NEURON_DTYPE_I64; }, kType, 0x71, "1, 2 or 4 bytes"},
      {make, [](I& i) { i.generate.scale = 1; }, kField, 0x78, "factor"},
      {make, [](I& i) { i.generate.to_dims[3].step = 1; }, kField, 0x40, "unused dimension"},
      {make, [](I& i) { i.generate.from_dims = {}; }, kField, 0x50, "at least one dimension"},
      {make, [](I& i) { i.generate.to_dims[0].size = 511; }, kShape, 0x28, "same number"},
      {make, [](I& i) { i.generate.to_dims[1].size = 1 << 30; }, kShape, 0x28, "4 GiB"},
      {make,
       [](I& i) {
         i.generate.to_dims = i.generate.from_dims = {{{1 << 21, 8}}};
       },
       kShape, 0x28, "1048576 rows"},
      {make,
       [](I& i) {
         i.dma.operation = NEURON_DMA_TRANSPOSE;
         i.dma.from_type = i.dma.to_type;
       },
       kShape, 0x28, "[columns, rows]"},
      {make,
       [](I& i) {
         i.dma.operation = NEURON_DMA_TRANSPOSE;
         i.dma.from_type = i.dma.to_type = NEURON_DTYPE_U8;
       },
       kType, 0x70, "2 or 4 bytes"},
      {make,
       [](I& i) {
         i.bind[0] = {3, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
       },
       kField, 0x18, "even register"},
      {make,
       [](I& i) {
         i.bind[0] = {4, NEURON_BIND_SIZE0 + 2, 0, NEURON_BIND_REPLACE};
       },
       kField, 0x18, "unused"},
      {gather, [](I& i) { i.dst.dtype = NEURON_DTYPE_BF16; }, kType, 0x24, "dma.ctl"},
      {gather, [](I& i) { i.src0.dtype = NEURON_DTYPE_U16; }, kType, 0x3C, "u32"},
      {gather, [](I& i) { i.src0.size[0] = 2; }, kShape, 0x40, "one row index"},
      {gather, [](I& i) { i.dst.parts = 64; }, kShape, 0x23, "partition for each row"},
      {gather, [](I& i) { i.dst.size[0] = 63; }, kShape, 0x28, "row_bytes"},
      {gather, [](I& i) { i.indirect.row_bytes = 255; }, kShape, 0x58, "multiple of the element"},
      {gather, [](I& i) { i.indirect.row_bytes = 0; }, kShape, 0x58, "at least one element"},
      {gather, [](I& i) { i.indirect.rows = 0; }, kField, 0x60, "at least one row"},
      {gather, [](I& i) { i.dst.space = NEURON_SPACE_PSUM; }, kSpace, 0x25, "SBUF"},
      {gather, [](I& i) { i.dma.operation = NEURON_DMA_TRANSPOSE; }, kShape, 0x23, "transposing"},
      {scatter,
       [](I& i) {
         i.dma.operation = NEURON_DMA_TRANSPOSE;
         i.dma.accumulate = false;
       },
       kOp, 0x70, "does not transpose"},
  });
}

TEST(InstructionRules, AllowTheTilesOfTheArrayOfGeneration2) {
  unsigned allowed = 0;
  for (const auto& sample : testing::samples()) {
    if (sample.instruction.opcode != NEURON_OP_LDWEIGHTS) continue;
    for (unsigned word = 0; word < 256; ++word) {
      Instruction i = sample.instruction;
      i.pe.row = word & 3;
      i.pe.column = word >> 2 & 3;
      i.pe.rows = word >> 4 & 3;
      i.pe.columns = word >> 6;
      allowed += !check_encoding(raw(i), NEURON_ENGINE_PE, Limits{});
    }
  }
  // (1 + 2 + 4) positions by rows times as many by columns, without the 4 x 4 of 32 x 32.
  EXPECT_EQ(allowed, 7U * 7 - 16);
}

// The scalar of copy_predicated has the type of what it is copied to, and so may any bias.
TEST(InstructionRules, LetAScalarHaveTheFloatOfGeneration4There) {
  for (const auto& sample : testing::samples()) {
    if (sample.instruction.opcode != NEURON_OP_COPY_PREDICATED) continue;
    Instruction i = sample.instruction;
    i.src0 = {};
    i.dst.dtype = NEURON_DTYPE_F8E4FN;
    i.scalar0 = pointer(0x1000, NEURON_DTYPE_F8E4FN);
    const auto complaint = [&](unsigned generation) {
      const Violation v = check_encoding(raw(i), sample.engine, limits_of(generation));
      return v ? v : check_operands(i, sample.engine, limits_of(generation));
    };
    EXPECT_FALSE(complaint(4)) << describe(complaint(4), i);
    EXPECT_TRUE(complaint(3));
    i.dst.dtype = NEURON_DTYPE_F32;
    EXPECT_EQ(complaint(3).offset, NEURON_INST_SCALAR0 + 4U);
    i.scalar0.dtype = NEURON_DTYPE_E8M0;
    EXPECT_EQ(complaint(4).code, unsigned{NEURON_FAULT_ILLEGAL_FIELD});
  }
}

// The Scalar engine has no tensor_scalar before generation 3, the steps of scale and bias then, and
// all arithmetic of Vector from generation 4 on.
TEST(InstructionRules, LetActivationDoTheArithmeticOfItsGeneration) {
  const auto code = [](unsigned generation, unsigned op0, unsigned op1) {
    Instruction i = testing::make(NEURON_OP_TENSOR_SCALAR, NEURON_ENGINE_ACTIVATION);
    i.dst = testing::sbuf(0, 64);
    i.src0 = testing::sbuf(0x400, 64);
    const bool bits = is_bit_alu(op0);
    const Scalar s = bits ? testing::immediate(3, NEURON_DTYPE_U32) : number(2);
    i.vector.op0 = static_cast<uint8_t>(op0);
    i.vector.op1 = static_cast<uint8_t>(op1);
    if (op0 != NEURON_ALU_BYPASS && !is_unary_alu(op0)) i.scalar0 = s;
    if (op1 != NEURON_ALU_BYPASS && !is_unary_alu(op1)) i.scalar1 = s;
    return check_encoding(raw(i), NEURON_ENGINE_ACTIVATION, limits_of(generation)).code;
  };
  EXPECT_NE(code(2, NEURON_ALU_MUL, NEURON_ALU_ADD), 0U);
  const std::pair<unsigned, unsigned> linear[] = {{NEURON_ALU_MUL, NEURON_ALU_ADD},
                                                  {NEURON_ALU_MUL, NEURON_ALU_BYPASS},
                                                  {NEURON_ALU_ADD, NEURON_ALU_BYPASS}};
  for (const auto& [op0, op1] : linear) {
    EXPECT_EQ(code(3, op0, op1), 0U) << op0 << ", " << op1;
    EXPECT_EQ(code(4, op0, op1), 0U) << op0 << ", " << op1;
  }
  const std::pair<unsigned, unsigned> later[] = {
      {NEURON_ALU_SUB, NEURON_ALU_MUL},       {NEURON_ALU_MAX, NEURON_ALU_BYPASS},
      {NEURON_ALU_ABS, NEURON_ALU_POW},       {NEURON_ALU_ADD, NEURON_ALU_ADD},
      {NEURON_ALU_LOGICAL_OR, NEURON_ALU_GE}, {NEURON_ALU_DIV, NEURON_ALU_MOD}};
  for (const auto& [op0, op1] : later) {
    EXPECT_EQ(code(3, op0, op1), kOp) << op0 << ", " << op1;
    EXPECT_EQ(code(4, op0, op1), 0U) << op0 << ", " << op1;
  }
  EXPECT_EQ(code(4, NEURON_ALU_RSQRT, NEURON_ALU_BYPASS), kOp);
  EXPECT_EQ(code(4, NEURON_ALU_AND, NEURON_ALU_BYPASS), kOp);
  EXPECT_EQ(code(4, NEURON_ALU_AND, NEURON_ALU_OR), kOp);
}

TEST(InstructionRules, AllowEachVariantThatTheWordsPromise) {
  const auto accepted = [](uint16_t opcode, void (*change)(Instruction&)) {
    bool found = false;
    for (const auto& sample : testing::samples()) {
      if (sample.instruction.opcode != opcode) continue;
      Instruction i = sample.instruction;
      change(i);
      Violation v = check_encoding(raw(i), sample.engine, limits_of(sample.generation));
      if (!v) v = check_operands(i, sample.engine, limits_of(sample.generation));
      EXPECT_FALSE(v) << describe(v, i);
      found = true;
    }
    EXPECT_TRUE(found) << "no sample of " << opcode_name(opcode);
  };
  accepted(NEURON_OP_TRANSPOSE32, [](I& i) {
    i.src0.parts = i.dst.size[0] = 20;
    i.dst.parts = i.src0.size[0] = 12;
  });
  accepted(NEURON_OP_COPY_PREDICATED, [](I& i) {
    i.src0 = {};
    i.scalar0 = number(-1);
  });
  accepted(NEURON_OP_TENSOR_SCALAR_CUMULATIVE, [](I& i) {
    i.scalar1 = {};
    i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  });
  accepted(NEURON_OP_MATCH_REPLACE8, [](I& i) { i.scalar1 = {}; });
  for (const uint16_t opcode : {NEURON_OP_TENSOR_SCALAR_REDUCE, NEURON_OP_EXPONENTIAL}) {
    accepted(opcode, [](I& i) {
      i.scalar1 = pointer(0x1100);
      i.vector.reduce_command = NEURON_REDUCE_LOAD_ACCUMULATE;
    });
  }
  accepted(NEURON_OP_TENSOR_TENSOR, [](I& i) { i.vector.op0 = NEURON_ALU_DIV; });
  accepted(NEURON_OP_TENSOR_TENSOR, [](I& i) { i.vector.op0 = NEURON_ALU_MOD; });
  accepted(NEURON_OP_SCALAR_TENSOR_TENSOR, [](I& i) { i.vector.op1 = NEURON_ALU_AVERAGE; });
  accepted(NEURON_OP_TENSOR_TENSOR_SCAN, [](I& i) { i.vector.op0 = NEURON_ALU_DIV; });
  accepted(NEURON_OP_ACTIVATE, [](I& i) {
    i.act.function = 200;
    i.act.table_set = 2;
  });
  accepted(NEURON_OP_RAND2, [](I& i) { i.dst.dtype = NEURON_DTYPE_F8E4FN; });
  accepted(NEURON_OP_DMA_GENERATE, [](I& i) {
    i.dma.operation = NEURON_DMA_TRANSPOSE;
    i.dma.from_type = i.dma.to_type = NEURON_DTYPE_BF16;
    i.generate.to_dims = {{{128, 2}, {512, 256}}};
    i.bind[0] = {4, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
    i.bind[1] = {6, NEURON_BIND_SIZE0, 1, NEURON_BIND_REPLACE};
  });
  accepted(NEURON_OP_DMA_GATHER, [](I& i) {
    i.dma.operation = NEURON_DMA_TRANSPOSE;
    i.src0.parts = 100;
    i.dst.parts = 64;
    i.dst.size[0] = 100;
    i.bind[0] = {4, NEURON_BIND_BASE, 2, NEURON_BIND_ADD_PAIR};
  });
}

}  // namespace
}  // namespace neuron::isa
