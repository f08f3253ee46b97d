// SPDX-License-Identifier: Apache-2.0
// What the performance guide says of instructions, as ratios of model times: what is fused is
// faster, and fewer partitions are not.
#include "tests/differential/compare.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::differential {
namespace {

using builder::Engine;
using builder::Program;
using builder::Tile;

constexpr uint32_t kColumns = 2048;

// exp(x * 0.5 + bias) of a tile, `rounds` times: in one instruction, or in three.
double picoseconds(uint32_t rounds, uint32_t parts, bool fused) {
  Program program("exponential");
  const builder::Buffer x = program.input("x", kF32, {parts, kColumns});
  const builder::Buffer y = program.output("y", kF32, {parts, kColumns});
  const Tile from = program.sbuf("x", parts, kColumns, kF32);
  const Tile to = program.sbuf("y", parts, kColumns, kF32);
  const Tile bias = program.sbuf("bias", parts, 1, kF32);
  program.memset(Engine::kPool, bias.all(), std::bit_cast<uint32_t>(1.0F));
  program.dma(Engine::kSp, from.all(), x.all());
  for (uint32_t round = 0; round < rounds; ++round) {
    if (fused) {
      program.activate(to.all(), NEURON_ACT_EXP, from.all(), {.scale = 0.5F, .bias = bias.all()});
    } else {
      program.activate(to.all(), NEURON_ACT_COPY, from.all(), {.scale = 0.5F});
      program.activate(to.all(), NEURON_ACT_COPY, to.all(), {.bias = bias.all()});
      program.activate(to.all(), NEURON_ACT_EXP, to.all());
    }
  }
  program.dma(Engine::kSp, y.all(), to.all());
  DeviceModel model(program.build());
  if (!model.usable()) return 0;
  model.write("x", std::vector<float>(size_t{parts} * kColumns));
  if (!model.execute() || !model.execute()) return 0;
  return static_cast<double>(model.device_ps());
}

double of_one(uint32_t parts, bool fused) {
  return (picoseconds(24, parts, fused) - picoseconds(8, parts, fused)) / 16;
}

TEST(EngineTime, OfScaleBiasAndFunctionInOneInstructionIsAThird) {
  EXPECT_NEAR(of_one(128, false) / of_one(128, true), 3, 0.15);
}

TEST(EngineTime, OfHalfThePartitionsIsTheSame) {
  EXPECT_DOUBLE_EQ(of_one(64, true), of_one(128, true));
}

}  // namespace
}  // namespace neuron::differential
