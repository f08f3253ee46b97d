// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/isa/explain.h"
#include "driver/isa/opcode_table.h"
#include "driver/isa/published_matrix.h"
#include "tests/unit/driver/isa/samples.h"

namespace neuron::isa {
namespace {

using ::testing::HasSubstr;

testing::Sample instruction_of(uint16_t opcode) {
  for (const auto& s : testing::samples()) {
    if (s.instruction.opcode == opcode) return s;
  }
  ADD_FAILURE() << "no instruction_of of opcode " << opcode;
  return {};
}

uint64_t cycles(
    uint16_t opcode, void (*change)(Instruction&) = [](Instruction&) {}) {
  testing::Sample s = instruction_of(opcode);
  change(s.instruction);
  return cycles_of(s.instruction, s.engine);
}

TEST(PublishedMatrix, TakesTheTimeThatThePeakRateOfInferentia1Gives) {
  const MatrixShape cube{1000, 1000, 1000};  // 2 * 10^9 operations
  EXPECT_EQ(published_matrix_time(1, NEURON_DTYPE_BF16, cube), 125'000'000u) << "at 16 TFLOPS";
  EXPECT_EQ(published_matrix_time(1, NEURON_DTYPE_F16, cube), 125'000'000u);
  EXPECT_EQ(published_matrix_time(1, NEURON_DTYPE_I8, cube), 62'500'000u) << "at 32 TOPS";
  EXPECT_EQ(published_matrix_time(1, NEURON_DTYPE_BF16, {1, 1, 1}), 1u) << "rounded up";
  EXPECT_FALSE(published_matrix_time(1, NEURON_DTYPE_F32, cube)) << "not published";
  EXPECT_FALSE(published_matrix_time(2, NEURON_DTYPE_BF16, cube)) << "has instructions";
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

TEST(Cost, OfGeneratedDescriptorsIsThePublishedOneUntilTheirWritesTakeLonger) {
  const auto s = instruction_of(NEURON_OP_DMA_GENERATE);
  const Cost cost = cost_of(s.instruction, s.engine);
  EXPECT_EQ(cost.interval, 600'000U);
  EXPECT_FALSE(cost.datapath);
  testing::Sample strided = s;
  strided.instruction.generate.to_dims[0].step = 4;
  EXPECT_EQ(cost_of(strided.instruction, s.engine).interval,
            2 * 128 * 512 * timing_of(2).posted_write);
  const auto gather = instruction_of(NEURON_OP_DMA_GATHER);
  EXPECT_EQ(cost_of(gather.instruction, gather.engine).interval, 600'000U);
}

TEST(Cost, OfGeneration3FollowsItsClocksAndPerformanceModes) {
  const auto v3 = [](uint16_t opcode, unsigned engine, void (*change)(Instruction&)) {
    testing::Sample s = instruction_of(opcode);
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
  testing::Sample wide = instruction_of(NEURON_OP_TENSOR_COPY);
  narrow(wide.instruction);
  wide.instruction.dst.dtype = NEURON_DTYPE_F32;
  EXPECT_EQ(cycles_of(wide.instruction, NEURON_ENGINE_DVE, 3), 1024U);
  wide.instruction.dst.dtype = NEURON_DTYPE_BF16;
  wide.instruction.dst.space = NEURON_SPACE_PSUM;
  EXPECT_EQ(cycles_of(wide.instruction, NEURON_ENGINE_DVE, 3), 512U);
  EXPECT_EQ(cycles_of(wide.instruction, NEURON_ENGINE_DVE), 1024U);
}

TEST(Cost, TellsThePerformanceModeOfVectorAndActivationAndOfNoOther) {
  Instruction copy = instruction_of(NEURON_OP_TENSOR_COPY).instruction;
  copy.dst = testing::sbuf(0, 1024, NEURON_DTYPE_BF16);
  copy.src0 = testing::sbuf(0x1000, 1024, NEURON_DTYPE_BF16);
  EXPECT_EQ(performance_mode(copy, NEURON_ENGINE_DVE, 2), 1U);
  EXPECT_EQ(performance_mode(copy, NEURON_ENGINE_DVE, 3), 4U);
  EXPECT_EQ(performance_mode(copy, NEURON_ENGINE_POOL, 3), 1U);
  EXPECT_EQ(performance_mode(copy, NEURON_ENGINE_ACTIVATION, 3), 1U);
  EXPECT_EQ(performance_mode(copy, NEURON_ENGINE_ACTIVATION, 4), 2U);
  for (const auto& s : testing::samples()) {
    const bool streams = s.instruction.group() == 3 || s.instruction.group() == 4;
    if (streams && s.instruction.opcode != NEURON_OP_LOAD_TABLE) continue;
    for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
      EXPECT_EQ(performance_mode(s.instruction, engine, 4), 1U)
          << opcode_name(s.instruction.opcode);
    }
  }
}

TEST(Cost, OfDoubleRowAndMxIsThatOfAnOrdinaryProductOfAsManyColumns) {
  testing::Sample s = instruction_of(NEURON_OP_MATMUL);
  s.instruction.src0 = testing::tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F8E4, {512, 2});
  s.instruction.pe.mode = NEURON_PE_DOUBLE_ROW;
  EXPECT_EQ(cycles_of(s.instruction, NEURON_ENGINE_PE, 3), 512U);  // 512 x 128 x 256 products
  testing::Sample w = instruction_of(NEURON_OP_LDWEIGHTS);
  w.instruction.src0 = testing::tile(NEURON_SPACE_SBUF, 0, 128, 0, NEURON_DTYPE_F8E4, {128, 2});
  w.instruction.pe.mode = NEURON_PE_DOUBLE_ROW;
  EXPECT_EQ(cycles_of(w.instruction, NEURON_ENGINE_PE, 3), 32U);
  EXPECT_EQ(cycles_of(instruction_of(NEURON_OP_MATMUL_MX).instruction, NEURON_ENGINE_PE, 4), 512U);
  EXPECT_EQ(cycles_of(instruction_of(NEURON_OP_LDWEIGHTS_MX).instruction, NEURON_ENGINE_PE, 4),
            32U);
  // Published rates: 158 TFLOPS of f8 on generation 3, 315 of MX on generation 4, within 0.5 %.
  const auto teraflops = [](const Instruction& i, unsigned generation, double rows) {
    const double ps = static_cast<double>(cost_of(i, NEURON_ENGINE_PE, generation).interval);
    return 2.0 * rows * 128 * 512 / ps;
  };
  EXPECT_NEAR(teraflops(s.instruction, 3, 256), 158, 0.005 * 158);
  EXPECT_NEAR(teraflops(instruction_of(NEURON_OP_MATMUL_MX).instruction, 4, 512), 315, 0.005 * 315);
}

TEST(Cost, OfSparseProductsIsThatOfAnOrdinaryOneOfAsManyColumns) {
  const testing::Sample s = instruction_of(NEURON_OP_MATMUL_SPARSE);
  EXPECT_EQ(cycles_of(s.instruction, NEURON_ENGINE_PE, 3), 512U);
  EXPECT_EQ(cycles_of(instruction_of(NEURON_OP_LDWEIGHTS_SPARSE).instruction, NEURON_ENGINE_PE, 3),
            32U);
  // Published: 316 TFLOPS of the dense shape at 4 dense rows for each compressed one.
  const double ps = static_cast<double>(cost_of(s.instruction, NEURON_ENGINE_PE, 3).interval);
  EXPECT_NEAR(2.0 * 512 * 128 * 512 / ps, 316, 0.01 * 316);
}

TEST(Cost, OfWhatGenerations3And4AddFollowsThePublishedRates) {
  const auto of = [](uint16_t opcode, uint16_t n, unsigned generation) {
    testing::Sample s = instruction_of(opcode);
    for (Operand* operand : {&s.instruction.dst, &s.instruction.src0, &s.instruction.src1}) {
      if (operand->present()) operand->size[0] = n;
    }
    return cycles_of(s.instruction, s.engine, generation);
  };
  EXPECT_EQ(of(NEURON_OP_RANGE_SELECT, 1000, 3), 1000U);
  EXPECT_EQ(of(NEURON_OP_SELECT_REDUCE, 1000, 3), 2000U);
  EXPECT_EQ(of(NEURON_OP_EXPONENTIAL, 1000, 4), 250U);  // a quarter of Activation's
  EXPECT_EQ(of(NEURON_OP_RAND2, 1000, 4), 250U);
  EXPECT_EQ(of(NEURON_OP_QUANTIZE_MX, 1000, 4), 250U);
  EXPECT_EQ(of(NEURON_OP_NONZERO_WITH_COUNT, 1000, 3), 1150U);
  EXPECT_EQ(of(NEURON_OP_SENDRECV, 256, 3), 150U + 128 * 256 * 4 / 128);
  EXPECT_EQ(of(NEURON_OP_ACTIVATE2, 1000, 4), 1000U);
  testing::Sample narrow = instruction_of(NEURON_OP_ACTIVATE2);
  narrow.instruction.src0.dtype = narrow.instruction.dst.dtype = NEURON_DTYPE_BF16;
  narrow.instruction.src0.size[0] = narrow.instruction.dst.size[0] = 1000;
  EXPECT_EQ(cycles_of(narrow.instruction, NEURON_ENGINE_ACTIVATION, 4), 500U);
  testing::Sample copy = instruction_of(NEURON_OP_TENSOR_COPY);
  copy.instruction.src0 = testing::sbuf(0, 1024, NEURON_DTYPE_F8E4);
  copy.instruction.dst = testing::sbuf(0x1000, 1024, NEURON_DTYPE_F8E4);
  EXPECT_EQ(cycles_of(copy.instruction, NEURON_ENGINE_DVE, 3), 1024U);
  EXPECT_EQ(cycles_of(copy.instruction, NEURON_ENGINE_DVE, 4), 256U);
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
  const auto s = instruction_of(NEURON_OP_TENSOR_SCALAR);
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
  auto s = instruction_of(NEURON_OP_BN_STATS);
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
  auto s = instruction_of(NEURON_OP_TENSOR_COPY);
  s.instruction.src0.parts = 0;
  s.instruction.bind[0] = {5, NEURON_BIND_PARTS, 1, NEURON_BIND_REPLACE};
  const Explanation e = explain(s.instruction, s.engine);
  EXPECT_EQ(e.problem, "");
  EXPECT_THAT(to_text(e), HasSubstr("depends on registers"));
}

// "op: add, mul" of an opcode.
std::string choices(unsigned opcode, unsigned engine, const std::string& what) {
  for (const auto& [name, names] : explain_opcode(opcode, engine).choices) {
    if (name == what) return names;
  }
  return "none";
}

TEST(Explain, ListsTheFunctionsAndOperationsThatTheRulesAccept) {
  EXPECT_EQ(choices(NEURON_OP_PARTITION_REDUCE, NEURON_ENGINE_POOL, "op"),
            "add, max, average, and, or");
  EXPECT_EQ(choices(NEURON_OP_AFFINE_SELECT, NEURON_ENGINE_POOL, "op"), "eq, ne, gt, ge, lt, le");
  EXPECT_EQ(choices(NEURON_OP_TENSOR_REDUCE, NEURON_ENGINE_DVE, "reduce"),
            "add, sub, mul, max, min, logical_and, logical_or, logical_xor, and, or, xor");
  EXPECT_EQ(choices(NEURON_OP_TENSOR_SCALAR_CUMULATIVE, NEURON_ENGINE_DVE, "op1"),
            "add, sub, mul, max, min");
  EXPECT_EQ(choices(NEURON_OP_MATMUL, NEURON_ENGINE_PE, "op"), "none");
  const std::string pairs = choices(NEURON_OP_TENSOR_TENSOR, NEURON_ENGINE_DVE, "op");
  EXPECT_EQ(pairs.find("pow"), std::string::npos) << pairs;
  EXPECT_NE(choices(NEURON_OP_TENSOR_TENSOR, NEURON_ENGINE_POOL, "op").find("pow"),
            std::string::npos);
  const std::string functions = choices(NEURON_OP_ACTIVATE, NEURON_ENGINE_ACTIVATION, "functions");
  EXPECT_EQ(functions, all_functions());
  const std::string text = to_text(explain_opcode(NEURON_OP_ACTIVATE, NEURON_ENGINE_ACTIVATION));
  EXPECT_NE(text.find("functions     " + functions + "\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("this one"), std::string::npos) << text;
}

}  // namespace
}  // namespace neuron::isa
