// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/kernels/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/compiler/program_builder/program_reader.h"
#include "tools/compiler/kernels/fault_programs.h"

namespace neuron::kernels {
namespace {

using builder::testing::load;
using ::testing::HasSubstr;

TEST(Kernels, AreReadByTheLoaderAndTheSameInEveryBuild) {
  const std::string data = std::string(NEURON_SOURCE_DIR) + "/tools/compiler/kernels/digits";
  for (const std::string& name : names()) {
    const auto first = build(name, data);
    const auto loaded = load(first, generation_of(name));
    ASSERT_TRUE(first) << name;
    EXPECT_EQ(*first, *build(name, data)) << name;
    EXPECT_EQ(loaded.model.name, name);
  }
}

TEST(Kernels, HaveAnEmptyOneThatAllEnginesReturnFrom) {
  const auto loaded = load(empty());
  for (const auto& code : loaded.code) {
    ASSERT_EQ(code.size(), 1U);
    EXPECT_EQ(code[0].opcode, NEURON_OP_RET);
  }
}

TEST(Kernels, StreamPanelsOfAMatmulThatSbufCannotHold) {
  const auto loaded = load(matmul("large", NEURON_DTYPE_F32, {1024, 4096, 2048}));
  // Each stationary block is loaded for each of the moving blocks, so more than once.
  uint64_t moved = 0;
  for (const auto& transfer : loaded.graph().engines[NEURON_ENGINE_SP].dma) {
    moved += transfer.to.bytes();
  }
  EXPECT_GT(moved, uint64_t{4} * (1024 + 2048) * 4096);
}

TEST(Kernels, SayWhichShapesAMatmulTakes) {
  const auto neff = matmul("odd", NEURON_DTYPE_F32, {100, 128, 512});
  ASSERT_FALSE(neff);
  EXPECT_THAT(neff.error().sentence, HasSubstr("M and K multiples of 128, N a multiple of 512"));
}

TEST(Kernels, ComputeAMatmulThatIsDeeperThanSbuf) {
  const auto loaded = load(matmul("deep", NEURON_DTYPE_F32, {128, 1 << 16, 512}));
  size_t products = 0;
  for (const auto& i : loaded.code[NEURON_ENGINE_PE]) products += i.opcode == NEURON_OP_MATMUL;
  EXPECT_EQ(products, size_t{1} << 9);
}

TEST(Kernels, RepeatManyRowsInALoopAndNotInCode) {
  const auto few = load(softmax("few", NEURON_DTYPE_BF16, 1024, 64));
  const auto many = load(softmax("many", NEURON_DTYPE_BF16, 1 << 16, 64));
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    EXPECT_EQ(few.code[e].size(), many.code[e].size());
  }
  EXPECT_EQ(many.graph().engines[NEURON_ENGINE_SP].dma.size(), 512U);
}

TEST(Kernels, NameTheMissingWeightFile) {
  const auto weights = read_digits_weights("/nonexistent");
  ASSERT_FALSE(weights);
  EXPECT_THAT(weights.error().sentence, HasSubstr("/nonexistent/w1.npy"));
}

TEST(Kernels, NameTheKnownKernelsForAnUnknownOne) {
  const auto neff = build("mat", "");
  ASSERT_FALSE(neff);
  EXPECT_THAT(neff.error().sentence, HasSubstr("no kernel \"mat\"; there are empty, tensor_add"));
}

TEST(FaultPrograms, BreakExactlyOneRule) {
  const auto bad = load(bad_partition());
  const isa::Instruction& i = bad.code[NEURON_ENGINE_DVE].at(1);
  EXPECT_EQ(isa::check_operands(i, NEURON_ENGINE_DVE, isa::Limits{}).code,
            NEURON_FAULT_OPERAND_PARTITION);
  for (const auto& neff :
       {deadlock(), bad_partition_register(), endless_loop(), bad_address(), no_weights()}) {
    const auto loaded = load(neff);
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
      for (const auto& instruction : loaded.code[e]) {
        EXPECT_FALSE(isa::check_operands(instruction, e, isa::Limits{}));
      }
    }
  }
  EXPECT_TRUE(illegal_opcode());
}

}  // namespace
}  // namespace neuron::kernels
