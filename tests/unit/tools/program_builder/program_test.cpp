// SPDX-License-Identifier: Apache-2.0
#include "tools/program_builder/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/address_map.h"
#include "tests/unit/tools/program_builder/program_reader.h"

namespace neuron::builder {
namespace {

using ::testing::HasSubstr;

constexpr std::uint8_t kF32 = NEURON_DTYPE_F32;

TEST(Program, WritesTensorsVariablesQueuesAndTransfers) {
  Program program("copy");
  const Buffer x = program.input("x", kF32, {128, 64});
  const Buffer y = program.output("y", kF32, {128, 64});
  const Tile tile = program.sbuf("tile", 128, 64, kF32);
  program.dma(Engine::kSp, tile.all(), x.all());
  program.dma(Engine::kPool, y.all(), tile.all());
  const auto loaded = testing::load(program.build());
  ASSERT_EQ(loaded.model.inputs.size(), 1U);
  EXPECT_EQ(loaded.model.inputs[0].name, "x");
  EXPECT_EQ(loaded.model.inputs[0].size, 128U * 64 * 4);
  EXPECT_EQ(loaded.model.outputs[0].shape, (std::vector<std::uint32_t>{128, 64}));
  const auto& graph = loaded.graph();
  ASSERT_EQ(graph.queues.size(), 2U);
  EXPECT_EQ(graph.queues[0].name, "qPool_out");
  EXPECT_EQ(graph.queues[0].kind, neff::QueueKind::kOut);
  EXPECT_EQ(graph.queues[1].kind, neff::QueueKind::kIn);
  EXPECT_EQ(graph.queues[1].num_queues, 16U);
  const auto& transfer = graph.engines[NEURON_ENGINE_SP].dma.at(0);
  EXPECT_EQ(transfer.from[0].sizes, (std::array<std::uint64_t, 4>{256, 128, 1, 1}));
  EXPECT_EQ(transfer.to.steps[1], static_cast<std::int64_t>(NEURON_SBUF_PARTITION_STRIDE));
  EXPECT_EQ(graph.variables[transfer.to.variable].name, "sbuf");
  const auto& pool = loaded.code[NEURON_ENGINE_POOL];
  ASSERT_EQ(pool.size(), 3U);
  EXPECT_EQ(pool[0].wait[0].value, 16);
  EXPECT_EQ(pool[1].opcode, NEURON_OP_EVENT);
  EXPECT_EQ(pool[2].opcode, NEURON_OP_RET);
  EXPECT_EQ(graph.engines[NEURON_ENGINE_POOL].relocations.at(0).kind, NEURON_RELOC_DMA_BLOCK);
}

TEST(Program, KeepsConstantsAsTheyAre) {
  Program program("constant");
  const Buffer c = program.constant("weights", NEURON_DTYPE_BF16, {2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tile tile = program.sbuf("tile", 2, 2, NEURON_DTYPE_BF16);
  program.dma(Engine::kSp, tile.all(), c.all());
  const auto neff = program.build();
  ASSERT_TRUE(neff) << neff.error().detail;
  const auto container = neff::Container::open(*neff);
  ASSERT_TRUE(container);
  const auto model = neff::load_model(*container, {2, 1, false});
  ASSERT_TRUE(model) << model.error().detail;
  const auto& variable = model->subgraphs[0].variables[0];
  EXPECT_EQ(variable.kind, neff::VariableKind::kFile);
  EXPECT_EQ(std::vector<std::uint8_t>(variable.contents.begin(), variable.contents.end()),
            (std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Program, GivesTheSameBytesForTheSameCalls) {
  const auto build = [] {
    Program program("same");
    const Buffer x = program.input("x", kF32, {128, 512});
    const Tile tile = program.sbuf("tile", 128, 512, kF32);
    const Tile sum = program.psum("sum", 128, 512);
    program.dma(Engine::kSp, tile.all(), x.all());
    program.matmul(sum.all(), tile.column_range(0, 128), tile.all());
    return *program.build();
  };
  EXPECT_EQ(build(), build());
}

TEST(Program, NamesSectionAndOperationInTheLineTable) {
  Program program("lines");
  const Tile tile = program.sbuf("tile", 32, 8, kF32);
  program.section("first");
  program.memset(Engine::kDve, tile.all(), 0);
  program.section("second");
  program.memset(Engine::kDve, tile.all(), 1);
  program.memset(Engine::kDve, tile.all(), 2);
  const auto loaded = testing::load(program.build());
  const auto& lines = loaded.graph().engines[NEURON_ENGINE_DVE].lines;
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[2].file, "lines/second");
  EXPECT_EQ(lines[2].line, 2U);
  EXPECT_EQ(loaded.code[NEURON_ENGINE_DVE][2].debug, lines[2].debug);
}

// Every misuse is one sentence with the place; what follows it changes nothing.
void expect_error(Program& program, const char* sentence) {
  const auto result = program.build();
  ASSERT_FALSE(result) << sentence;
  EXPECT_THAT(result.error().detail, HasSubstr(sentence));
  EXPECT_THAT(result.error().detail, HasSubstr("program \"bad\", section \"part\""));
}

struct Fixture {
  Program program{"bad"};
  Buffer x = program.input("x", kF32, {128, 64});
  Tile tile = program.sbuf("tile", 128, 64, kF32);
  Tile bank = program.psum("bank", 128, 64);
  Fixture() { program.section("part"); }
};

TEST(Program, RefusesATransferOfUnequalSizes) {
  Fixture f;
  f.program.dma(Engine::kSp, f.tile.column_range(0, 32), f.x.all());
  f.program.memset(Engine::kDve, f.tile.all(), 0);
  expect_error(f.program, "moves 32768 bytes to 16384 bytes");
}

TEST(Program, RefusesToWriteAnInput) {
  Fixture f;
  f.program.dma(Engine::kSp, f.x.all(), f.tile.all());
  expect_error(f.program, "writes to input \"x\"");
}

TEST(Program, RefusesATransferBeyondItsBuffer) {
  Fixture f;
  f.program.dma(Engine::kSp, f.tile.all(), f.x.block(1, 128, 0, 64));
  expect_error(f.program, "reaches bytes 256 to 33024 of buffer \"x\"");
}

TEST(Program, RefusesATransferToPsum) {
  Fixture f;
  f.program.dma(Engine::kSp, f.bank.all(), f.x.all());
  expect_error(f.program, "transfers reach SBUF only");
}

TEST(Program, RefusesAnAccessOutsideItsTile) {
  Fixture f;
  f.program.memset(Engine::kDve, f.tile.column_range(60, 5), 0);
  expect_error(f.program, "leaves its tile");
}

TEST(Program, RefusesABrokenOperandRuleWithTheInstruction) {
  Fixture f;
  f.program.memset(Engine::kDve, f.tile.row_range(8, 8), 0);
  expect_error(f.program, "rule R1 [OPERAND_PARTITION]; the instruction is memset sbuf[8:8, 0x0]");
}

TEST(Program, RefusesAMatmulOfShapesThatDoNotGoTogether) {
  Fixture f;
  f.program.matmul(f.bank.all(), f.tile.all(), f.tile.all());
  expect_error(f.program, "expected [K, M], [K, N] and [M, N]");
}

TEST(Program, RefusesATileThatDoesNotFit) {
  Fixture f;
  const Tile large = f.program.sbuf("large", 128, 60000, kF32);
  f.program.memset(Engine::kDve, large.all(), 0);
  expect_error(f.program, "SBUF tile \"large\": asked for 240000 bytes");
}

TEST(Program, RefusesTwoBuffersOfOneName) {
  Fixture f;
  f.program.output("x", kF32, {4});
  expect_error(f.program, "two buffers have the name \"x\"");
}

TEST(Program, RefusesABufferWithTheNameOfTheStateBuffer) {
  Program program("names");
  program.input("sbuf", kF32, {1});
  const auto neff = program.build();
  ASSERT_FALSE(neff);
  EXPECT_THAT(neff.error().detail, HasSubstr("other than \"sbuf\""));
}

TEST(Program, RefusesAConstantOfTheWrongSize) {
  Fixture f;
  f.program.constant("c", kF32, {4}, {1, 2, 3});
  expect_error(f.program, "constant \"c\" has 3 bytes, its shape asks for 16");
}

TEST(Program, UsesReleasedMemoryAgainInOrder) {
  Program program("reuse");
  const Tile a = program.sbuf("a", 128, 40000, kF32);
  program.memset(Engine::kPool, a.all(), 0);
  program.release(a);
  const Tile b = program.sbuf("b", 128, 40000, kF32);
  EXPECT_EQ(a.base, b.base);
  program.memset(Engine::kDve, b.all(), 0);
  const auto loaded = testing::load(program.build());
  EXPECT_EQ(loaded.code[NEURON_ENGINE_DVE][0].wait[0].condition, NEURON_WAIT_GE);
}

}  // namespace
}  // namespace neuron::builder
