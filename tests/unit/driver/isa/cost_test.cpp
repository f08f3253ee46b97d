// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/isa/explain.h"
#include "driver/isa/opcode_table.h"
#include "tests/unit/driver/isa/samples.h"

namespace neuron::isa {
namespace {

using ::testing::HasSubstr;

testing::Sample sample(uint16_t opcode) {
  for (const auto& s : testing::samples()) {
    if (s.instruction.opcode == opcode) return s;
  }
  ADD_FAILURE() << "no sample of opcode " << opcode;
  return {};
}

uint64_t cycles(
    uint16_t opcode, void (*change)(Instruction&) = [](Instruction&) {}) {
  testing::Sample s = sample(opcode);
  change(s.instruction);
  return cycles_of(s.instruction, s.engine);
}

TEST(Cost, FollowsThePublishedFormulaOfEachInstruction) {
  using I = Instruction;
  EXPECT_EQ(cycles(NEURON_OP_MATMUL), 4 * 512U);
  EXPECT_EQ(cycles(NEURON_OP_MATMUL, [](I& i) { i.src0.dtype = NEURON_DTYPE_TF32; }), 512U);
  EXPECT_EQ(cycles(NEURON_OP_MATMUL, [](I& i) { i.pe.onezero_moving = true; }), 2 * 512U);
  EXPECT_EQ(cycles(NEURON_OP_MATMUL, [](I& i) { i.src0.size[0] = 16; }), 4 * 64U);
  EXPECT_EQ(cycles(NEURON_OP_LDWEIGHTS), 128U);
  EXPECT_EQ(cycles(NEURON_OP_LDWEIGHTS, [](I& i) { i.pe.onezero_stationary = true; }), 64U);
  EXPECT_EQ(cycles(NEURON_OP_TRANSPOSE), 4 * 128U);
  EXPECT_EQ(cycles(NEURON_OP_TENSOR_TENSOR), 64U);
  EXPECT_EQ(cycles(NEURON_OP_TENSOR_TENSOR, [](I& i) { i.src1.space = NEURON_SPACE_SBUF; }), 128U);
  EXPECT_EQ(cycles(NEURON_OP_TENSOR_SCALAR_REDUCE), 64U + 64);
  EXPECT_EQ(cycles(NEURON_OP_TENSOR_SCALAR_REDUCE, [](I& i) { i.src0.size[0] = 300; }), 364U);
  EXPECT_EQ(cycles(NEURON_OP_TENSOR_SCALAR_CUMULATIVE), 64U);
  EXPECT_EQ(cycles(NEURON_OP_TENSOR_TENSOR_SCAN), 128U);
  EXPECT_EQ(cycles(NEURON_OP_COPY_PREDICATED), 128U);
  EXPECT_EQ(cycles(NEURON_OP_COPY_PREDICATED, [](I& i) { i.src1.space = NEURON_SPACE_PSUM; }), 64U);
  EXPECT_EQ(cycles(NEURON_OP_RECIPROCAL), 512U);
  EXPECT_EQ(cycles(NEURON_OP_BN_STATS), 512U);
  EXPECT_EQ(cycles(NEURON_OP_BN_AGGR), 64U);
  EXPECT_EQ(cycles(NEURON_OP_BN_AGGR, [](I& i) { i.src0.size[0] = 30; }), 130U);
  EXPECT_EQ(cycles(NEURON_OP_MAX8, [](I& i) { i.src0.size[0] = 1000; }), 1000U);
  EXPECT_EQ(cycles(NEURON_OP_FIND_INDEX8, [](I& i) { i.src0.size[0] = 1000; }), 1000U);
  EXPECT_EQ(cycles(NEURON_OP_SET_RNG_SEED), 64U);
  EXPECT_EQ(cycles(NEURON_OP_READ_ACC), 64U);
  EXPECT_EQ(cycles(NEURON_OP_AFFINE_SELECT), 150U + 64);
  EXPECT_EQ(cycles(NEURON_OP_PARTITION_REDUCE), 150U + 16 * 64);
  // 40 indices of 2 elements of 4 bytes: C = (36 / 8) / 1.
  EXPECT_EQ(cycles(NEURON_OP_LOCAL_GATHER), 150U + 40 * 2 * 8 / 36);
  EXPECT_EQ(cycles(NEURON_OP_N_GATHER), 150U + 16);
  EXPECT_EQ(cycles(NEURON_OP_N_GATHER, [](I& i) { i.dst.size[0] = 513; }), 300U + 513);
  EXPECT_EQ(cycles(NEURON_OP_SEQUENCE_BOUNDS), 150U + 128);
  EXPECT_EQ(cycles(NEURON_OP_TOPK), 4 * 1000U + 20);
  EXPECT_EQ(cycles(NEURON_OP_TENSOR_COPY, [](I& i) { i.src0.step[0] = 5; }), 150U + 128);
}

TEST(Cost, OfGeneratedDescriptorsGrowsWithTheirRows) {
  const auto s = sample(NEURON_OP_DMA_GENERATE);
  const Cost cost = cost_of(s.instruction, s.engine);
  EXPECT_EQ(cost.interval, 600'000U + 2 * 128 * timing_of(2).posted_write);
  EXPECT_FALSE(cost.datapath);
  testing::Sample strided = s;
  strided.instruction.generate.to_dims[0].step = 4;
  EXPECT_EQ(cost_of(strided.instruction, s.engine).interval,
            600'000U + 2 * 128 * 512 * timing_of(2).posted_write);
  const auto gather = sample(NEURON_OP_DMA_GATHER);
  EXPECT_EQ(cost_of(gather.instruction, gather.engine).interval,
            600'000U + 2 * 128 * timing_of(2).posted_write);
}

TEST(Cost, OfGeneration3FollowsItsClocksAndPerformanceModes) {
  const auto v3 = [](uint16_t opcode, unsigned engine, void (*change)(Instruction&)) {
    testing::Sample s = sample(opcode);
    change(s.instruction);
    return cycles_of(s.instruction, engine, 3);
  };
  using I = Instruction;
  EXPECT_EQ(cycles_to_ps(NEURON_ENGINE_PE, 2400, 3), 1'000'000U);
  EXPECT_EQ(cycles_to_ps(NEURON_ENGINE_DVE, 960, 3), 1'000'000U);
  EXPECT_EQ(cycles_to_ps(NEURON_ENGINE_ACTIVATION, 1200, 3), 1'000'000U);
  EXPECT_EQ(cycles_to_ps(NEURON_ENGINE_PE, 2800), 1'000'000U);
  EXPECT_EQ(v3(NEURON_OP_TRANSPOSE, NEURON_ENGINE_PE, [](I&) {}), 2 * 128U)
      << "32 bits twice as fast";
  const auto narrow = [](I& i) {
    for (Operand* o : {&i.dst, &i.src0}) {
      *o = {.dtype = NEURON_DTYPE_BF16, .space = NEURON_SPACE_SBUF};
      o->parts = 128;
      o->ndim = 1;
      o->size = {1024, 1, 1, 1};
      o->step = {1, 0, 0, 0};
    }
  };
  EXPECT_EQ(v3(NEURON_OP_TENSOR_COPY, NEURON_ENGINE_DVE, narrow), 256U);
  EXPECT_EQ(v3(NEURON_OP_TENSOR_COPY, NEURON_ENGINE_ACTIVATION, narrow), 1024U);
  testing::Sample wide = sample(NEURON_OP_TENSOR_COPY);
  narrow(wide.instruction);
  wide.instruction.dst.dtype = NEURON_DTYPE_F32;
  EXPECT_EQ(cycles_of(wide.instruction, NEURON_ENGINE_DVE, 3), 1024U);
  wide.instruction.dst.dtype = NEURON_DTYPE_BF16;
  wide.instruction.dst.space = NEURON_SPACE_PSUM;
  EXPECT_EQ(cycles_of(wide.instruction, NEURON_ENGINE_DVE, 3), 512U);
  EXPECT_EQ(cycles_of(wide.instruction, NEURON_ENGINE_DVE), 1024U);
}

TEST(Cost, IsAboveZeroForEverySample) {
  for (const auto& s : testing::samples()) {
    EXPECT_GT(cost_of(s.instruction, s.engine).interval, 0U) << opcode_name(s.instruction.opcode);
  }
}

TEST(Explanation, HasWordsForEveryAvailableOpcodeAndNoOther) {
  for (const OpcodeInfo& info : all_opcodes()) {
    EXPECT_EQ(find_opcode_text(info.opcode) != nullptr, info.available) << info.name;
  }
  EXPECT_EQ(find_opcode_text(0x7FF), nullptr);
}

TEST(Explanation, NamesEnginesRulesAndCostOfAnInstruction) {
  const auto s = sample(NEURON_OP_TENSOR_SCALAR);
  const Explanation e = explain(s.instruction, s.engine);
  EXPECT_EQ(e.engines, "Pool, DVE; Activation from generation 3");
  EXPECT_EQ(e.generation, 2U);
  EXPECT_TRUE(e.available);
  EXPECT_EQ(e.availability, "available on DVE");
  EXPECT_EQ(e.cycles, 64U);
  EXPECT_EQ(e.interval_ps, 57142U);
  EXPECT_EQ(e.problem, "");
  EXPECT_THAT(to_text(e), HasSubstr("64 cycles, 57.142 ns; result visible 53.571 ns later"));
  EXPECT_THAT(to_text(e), HasSubstr("R5: Pool reaches SBUF only"));
}

TEST(Explanation, SaysWhyAnInstructionIsRefused) {
  auto s = sample(NEURON_OP_BN_STATS);
  s.instruction.src0.size[0] = 513;
  const Explanation e = explain(s.instruction, s.engine);
  EXPECT_THAT(e.problem, HasSubstr("at most 512 elements per partition; found 513"));
  EXPECT_EQ(e.interval_ps, 0U);
  EXPECT_THAT(to_text(e), HasSubstr("refused"));
}

TEST(Explanation, KnowsLaterGenerationsUnknownOpcodesAndRegisters) {
  EXPECT_EQ(explain(testing::make(0x30A, NEURON_ENGINE_DVE), NEURON_ENGINE_DVE).availability,
            "needs generation 3; this device is of generation 2");
  EXPECT_EQ(explain(testing::make(0x7FF, NEURON_ENGINE_DVE), NEURON_ENGINE_DVE).availability,
            "not an opcode of the instruction set");
  auto s = sample(NEURON_OP_TENSOR_COPY);
  s.instruction.src0.parts = 0;
  s.instruction.bind[0] = {5, NEURON_BIND_PARTS, 1, NEURON_BIND_REPLACE};
  const Explanation e = explain(s.instruction, s.engine);
  EXPECT_EQ(e.problem, "");
  EXPECT_THAT(to_text(e), HasSubstr("depends on registers"));
}

}  // namespace
}  // namespace neuron::isa
