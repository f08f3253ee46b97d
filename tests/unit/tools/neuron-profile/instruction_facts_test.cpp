// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/analysis/instruction_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::profile {
namespace {

InstructionFacts facts(const isa::Instruction& instruction, unsigned generation = 2) {
  Program program;
  program.generation = generation;
  auto& code = program.engines[NEURON_ENGINE_DVE].bytes;
  code.resize(NEURON_INSTRUCTION_BYTES);
  isa::encode(instruction, isa::MutableBytes(reinterpret_cast<std::byte*>(code.data()),
                                             NEURON_INSTRUCTION_BYTES));
  return facts_of(program, NEURON_ENGINE_DVE, 0);
}

isa::Operand tile(uint32_t base, std::array<uint16_t, 4> size, std::array<int16_t, 4> step) {
  isa::Operand operand{.base = base, .start = 32, .parts = 64, .dtype = NEURON_DTYPE_F32};
  operand.space = NEURON_SPACE_SBUF;
  operand.ndim = static_cast<uint8_t>(
      std::count_if(size.begin(), size.end(), [](uint16_t n) { return n != 0; }));
  operand.size = size;
  operand.step = step;
  return operand;
}

std::vector<std::pair<uint32_t, uint32_t>> written(const InstructionFacts& facts) {
  std::vector<std::pair<uint32_t, uint32_t>> places;
  for (const TilePiece& piece : facts.pieces) {
    if (piece.write) places.emplace_back(piece.begin, piece.end);
  }
  return places;
}

isa::Instruction memset(const isa::Operand& to) {
  isa::Instruction set;
  set.opcode = NEURON_OP_MEMSET;
  set.dst = to;
  return set;
}

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(InstructionFacts, HaveTheBytesOfAnOperandInOnePieceIfItsRowsTouch) {
  EXPECT_THAT(written(facts(memset(tile(512, {16, 4}, {1, 16})))), ElementsAre(Pair(512, 768)));
  EXPECT_THAT(written(facts(memset(tile(512, {16}, {2})))), ElementsAre(Pair(512, 636)))
      << "every second element";
  EXPECT_THAT(written(facts(memset(tile(512, {16}, {-1})))), ElementsAre(Pair(452, 516)));
  EXPECT_THAT(written(facts(memset(tile(512, {8, 100}, {1, 0})))), ElementsAre(Pair(512, 544)))
      << "the same eight again and again";
}

TEST(InstructionFacts, HaveTheRowsOfAnOperandApartUnlessThereAreVeryMany) {
  EXPECT_THAT(written(facts(memset(tile(0, {4, 3}, {1, 100})))),
              ElementsAre(Pair(0, 16), Pair(400, 416), Pair(800, 816)));
  EXPECT_THAT(written(facts(memset(tile(0, {4, 200}, {1, 8})))), ElementsAre(Pair(0, 6384)));
}

TEST(InstructionFacts, CountBytesOfAllPartitions) {
  const InstructionFacts set = facts(memset(tile(0, {4, 3}, {1, 100})));
  EXPECT_TRUE(set.has_bytes);
  EXPECT_EQ(set.sbuf_write, 4u * 3 * 64 * 4);
  EXPECT_EQ(set.sbuf_read, 0u);
  isa::Instruction bound = memset(tile(0, {4}, {1}));
  bound.bind[0] = {.reg = 1, .item = NEURON_BIND_BASE, .operand = 0, .mode = NEURON_BIND_ADD};
  EXPECT_TRUE(facts(bound).has_bytes) << "where it lies does not matter";
  EXPECT_TRUE(facts(bound).pieces.empty()) << "but is not known";
  bound.bind[0].item = NEURON_BIND_SIZE0;
  EXPECT_FALSE(facts(bound).has_bytes);
}

TEST(InstructionFacts, CountFlopsAndHowManyPassesTheyTake) {
  isa::Instruction product;
  product.opcode = NEURON_OP_MATMUL;
  product.src0 = tile(0, {512}, {1});
  product.dst = tile(0, {512}, {1});
  product.dst.space = NEURON_SPACE_PSUM;
  product.dst.parts = 128;
  const InstructionFacts f32 = facts(product);
  EXPECT_EQ(f32.flops, 2u * 64 * 128 * 512);
  EXPECT_EQ(f32.bf16_passes, 4);
  product.src0.dtype = NEURON_DTYPE_F8E4;
  EXPECT_EQ(facts(product).bf16_passes, 1);
  EXPECT_EQ(facts(product, 3).bf16_passes, 0.5);
}

TEST(InstructionFacts, OfAPlaceWithoutCodeAreNone) {
  const InstructionFacts none = facts_of(Program(), NEURON_ENGINE_PE, 7);
  EXPECT_FALSE(none.has_bytes);
  EXPECT_TRUE(none.pieces.empty());
}

}  // namespace
}  // namespace neuron::profile
