// SPDX-License-Identifier: Apache-2.0
// What the program builder writes for the parts that no kernel uses, on the emulated device:
// generated and indirect transfers, transfers that compute, advancing tiles in a loop.
#include "tests/differential/compare.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::differential {
namespace {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;

Bytes bytes_of(const std::vector<uint32_t>& words) {
  Bytes bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST(Builder, GathersRowsByIndexAndScattersThemBack) {
  constexpr uint32_t kRows = 200, kTaken = 128, kColumns = 48;
  Program program("gather");
  const Buffer x = program.input("x", kF32, {kRows, kColumns});
  const Buffer chosen = program.input("chosen", NEURON_DTYPE_U32, {kTaken});
  const Buffer y = program.output("y", kF32, {kRows, kColumns});
  const Buffer table = program.temporary("table", kF32, {kRows, kColumns});
  const Buffer result = program.temporary("result", kF32, {kRows, kColumns});
  const Tile index = program.sbuf("index", kTaken, 1, NEURON_DTYPE_U32);
  const Tile rows = program.sbuf("rows", kTaken, kColumns, kF32);
  program.dma(Engine::kSp, table.all(), x.all());
  program.dma(Engine::kSp, result.all(), x.all());
  program.dma(Engine::kSp, index.all(), chosen.as_column());
  program.dma_gather(rows.all(), table, index.all());
  program.tensor_scalar(Engine::kDve, rows.all(), rows.all(), NEURON_ALU_MUL, 2.0F);
  program.dma_scatter(result, index.all(), rows.all());
  program.dma(Engine::kSp, y.all(), result.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  std::vector<float> values = Numbers(5).take(kRows * kColumns);
  std::vector<uint32_t> taken(kTaken);
  for (uint32_t i = 0; i < kTaken; ++i) taken[i] = (i * 7 + 3) % kRows;  // 7 and 200: coprime
  const Bytes words = bytes_of(taken);
  model.write("x", values);
  model.write("chosen", words.data(), words.size());
  ASSERT_TRUE(model.execute());
  for (uint32_t row : taken) {
    for (uint32_t c = 0; c < kColumns; ++c) values[row * kColumns + c] *= 2;
  }
  EXPECT_EQ(floats(model.read("y")), values);
}

TEST(Builder, GeneratesTransfersThatAdvanceInALoop) {
  constexpr uint32_t kRounds = 5;
  Program program("generate");
  const Buffer x = program.input("x", kF32, {32 * kRounds, 16});
  const Buffer y = program.output("y", kF32, {32 * kRounds, 16});
  const Buffer from = program.temporary("from", kF32, {32 * kRounds, 16});
  const Buffer to = program.temporary("to", kF32, {32 * kRounds, 16});
  const Tile tile = program.sbuf("tile", 32, 16, kF32);
  program.dma(Engine::kSp, from.all(), x.all());
  program.loop(kRounds, [&] {
    program.dma_generate(tile.all(), from.rows_of_round(0, 32, 32));
    program.activate(tile.all(), NEURON_ACT_COPY, tile.all(), {.scale = 3.0F});
    program.dma_generate(to.rows_of_round(32 * (kRounds - 1), 32, -32), tile.all());
  });
  program.dma(Engine::kSp, y.all(), to.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  std::vector<float> values(32 * kRounds * 16);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  model.write("x", values);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = floats(model.read("y"));
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t block = i / 512, mirrored = (kRounds - 1 - block) * 512 + i % 512;
    ASSERT_EQ(got[i], values[mirrored] * 3) << i;
  }
}

TEST(Builder, AddsSourcesOfATransferAndCastsTheSum) {
  Program program("sum");
  const Buffer a = program.input("a", kF32, {64, 32});
  const Buffer b = program.input("b", kF32, {64, 32});
  const Buffer y = program.output("y", kBf16, {64, 32});
  program.dma_compute(Engine::kSp, y.all(), {a.all(), b.all()}, {.operation = NEURON_DMA_ADD});
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  const std::vector<float> left = Numbers(6).take(64 * 32), right = Numbers(7).take(64 * 32, 9);
  model.write("a", left);
  model.write("b", right);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = floats_of_bf16(model.read("y"));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], to_bf16(double{left[i]} + right[i])) << i;
  }
}

// One instruction in a loop that walks over the columns of its tiles, and views with steps.
TEST(Builder, MovesOperandsOverATileWithEachRound) {
  constexpr uint32_t kRounds = 7, kPiece = 8, kColumns = kRounds * kPiece;
  Program program("advance");
  const Buffer x = program.input("x", kF32, {32, kColumns});
  const Buffer y = program.output("y", kF32, {32, kColumns});
  const Tile from = program.sbuf("from", 32, kColumns, kF32);
  const Tile to = program.sbuf("to", 32, kColumns, kF32);
  program.dma(Engine::kSp, from.all(), x.all());
  program.loop(kRounds, [&] {
    // Each piece is added to its own mirror image.
    program.tensor_tensor(Engine::kDve, to.column_range(0, kPiece).advancing(kPiece),
                          from.column_range(0, kPiece).advancing(kPiece), NEURON_ALU_ADD,
                          from.strided(kPiece - 1, kPiece, -1).advancing(kPiece));
  });
  program.dma(Engine::kPool, y.all(), to.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  const std::vector<float> values = Numbers(8).take(32 * kColumns);
  model.write("x", values);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = floats(model.read("y"));
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t mirrored = i / kPiece * kPiece + kPiece - 1 - i % kPiece;
    ASSERT_EQ(got[i], values[i] + values[mirrored]) << i;
  }
}

// After a loop of more rounds than a wait's 16 bits can count, waits go through registers.
TEST(Builder, WaitsForALoopOfManyRounds) {
  constexpr uint32_t kRounds = 70000;
  Program program("rounds");
  const Buffer y = program.output("y", kF32, {1, 1});
  const Tile a = program.sbuf("a", 1, 1, kF32);
  const Tile b = program.sbuf("b", 1, 1, kF32);
  program.memset(Engine::kPool, a.all(), 0);
  program.loop(kRounds, [&] {
    program.tensor_scalar(Engine::kDve, b.all(), a.all(), NEURON_ALU_ADD, 1.0F);
    program.activate(a.all(), NEURON_ACT_COPY, b.all());
  });
  program.dma(Engine::kPool, y.all(), a.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  ASSERT_TRUE(model.execute());
  EXPECT_EQ(floats(model.read("y")), std::vector<float>{kRounds});
}

}  // namespace
}  // namespace neuron::differential
