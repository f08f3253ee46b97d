// SPDX-License-Identifier: Apache-2.0
// The program builder: microseconds for each operation of a program of 100,000 that is built and
// encoded, against what one may take; and 200,000 operations against 100,000.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/ratio.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::bench {
namespace {

using builder::Engine;

constexpr uint32_t kOperations = 100'000;
constexpr double kMostMicroseconds = 20;

// Blocks of rows go through tiles: a transfer in, three engines, a transfer out. Seconds; below 0
// if the program cannot be built.
double build(uint32_t operations) {
  constexpr uint32_t kTiles = 32, kColumns = 64, kOfABlock = 5;
  const double start = now_seconds();
  builder::Program program("operations");
  const uint64_t blocks = operations / kOfABlock;
  const auto x = program.input("x", NEURON_DTYPE_F32, {blocks * 128, kColumns});
  const auto y = program.output("y", NEURON_DTYPE_F32, {blocks * 128, kColumns});
  std::vector<builder::Tile> tiles;
  for (uint32_t t = 0; t < kTiles; ++t) {
    tiles.push_back(program.sbuf("tile" + std::to_string(t), 128, kColumns, NEURON_DTYPE_F32));
  }
  for (uint32_t block = 0; block < blocks; ++block) {
    const auto a = tiles[2 * block % kTiles].all(), b = tiles[(2 * block + 1) % kTiles].all();
    program.dma(Engine::kSp, a, x.block(uint64_t{block} * 128, 128, 0, kColumns));
    program.activate(b, NEURON_ACT_EXP, a);
    program.tensor_tensor(Engine::kDve, a, a, NEURON_ALU_MUL, b);
    program.tensor_copy(Engine::kPool, b, a);
    program.dma(Engine::kPool, y.block(uint64_t{block} * 128, 128, 0, kColumns), b);
  }
  const bool built = program.build().has_value();
  return built ? now_seconds() - start : -1;
}

double microseconds() {
  const double seconds = build(kOperations);
  return seconds < 0 ? seconds : seconds * 1e6 / kOperations;
}

}  // namespace

std::vector<Ratio> builder_operations() {
  Ratio each{.name = "builder", .peer_name = "the limit", .unit = "us", .goal = 1};
  each.smaller_is_better = true;
  each.rounds = 3;
  each.ours = microseconds;
  each.peer = [] { return kMostMicroseconds; };
  Ratio linear{
      .name = "builder-linear", .peer_name = "half as many operations", .unit = "s", .goal = 2.2};
  linear.smaller_is_better = true;
  linear.rounds = 3;
  linear.ours = [] { return build(2 * kOperations); };
  linear.peer = [] { return build(kOperations); };
  return {each, linear};
}

}  // namespace neuron::bench
