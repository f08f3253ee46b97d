// SPDX-License-Identifier: Apache-2.0
// Layer norm and RMS norm of each row, with a weight (and a bias) for each column.
//
// Layer norm: DVE's statistics of at most 512 columns at a time, combined; then (x - mean) * weight
// and * 1/sqrt(variance + epsilon) + bias, two passes. RMS norm: Activation squares and sums in one
// pass. 1/sqrt is Activation's; epsilon is its bias, a tile as generation 2 demands.
#include <array>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/row_constants.h"
#include "tools/compiler/kernels/row_tiles.h"
#include "tools/compiler/kernels/short_names.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;

namespace {

constexpr uint32_t kStatistics = 512;  // Columns of one bn_stats
constexpr uint32_t kScaled = 1024;     // Columns between the two passes: a small tile is hot

}  // namespace

Neff layer_norm(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns) {
  Program program(name);
  const Buffer x = program.input("x", dtype, {rows, columns});
  const Buffer y = program.output("y", dtype, {rows, columns});
  program.section("columns");
  const Tile weight = broadcast_row(program, "weight", dtype, columns);
  const Tile bias = broadcast_row(program, "bias", dtype, columns);
  const Tile epsilon = constant_column(program, "epsilon", kNormEpsilon);
  const auto width = static_cast<uint32_t>(columns);
  const uint32_t chunks = (width + kStatistics - 1) / kStatistics;
  struct Set {
    Tile x, scaled, y, statistics, moments, factor;
  };
  std::array<Set, 2> sets;
  for (Set& set : sets) {
    set.x = program.sbuf("x", NEURON_PARTITIONS, width, dtype);
    set.scaled =
        program.sbuf("centred and weighted", NEURON_PARTITIONS, std::min(kScaled, width), kF32);
    set.y = program.sbuf("y", NEURON_PARTITIONS, width, dtype);
    set.statistics = program.sbuf("statistics", NEURON_PARTITIONS, 6 * chunks, kF32);
    set.moments = program.sbuf("mean and variance", NEURON_PARTITIONS, 2, kF32);
    set.factor = program.sbuf("factor", NEURON_PARTITIONS, 1, kF32);
  }
  for_row_tiles(program, rows, [&](const RowTile& tile) {
    const Set& set = sets[tile.set];
    const uint32_t parts = tile.parts();
    program.dma(Engine::kSp, tile.of(set.x), tile.of(x));
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const uint32_t first = chunk * kStatistics;
      program.bn_stats(set.statistics.at(0, parts, 6 * chunk, 6),
                       set.x.at(0, parts, first, std::min(kStatistics, width - first)));
    }
    program.bn_aggr(tile.of(set.moments), tile.of(set.statistics));
    program.activate(tile.of(set.factor), NEURON_ACT_RSQRT, set.moments.at(0, parts, 1, 1),
                     {.bias = tile.of(epsilon)});
    for (uint32_t first = 0; first < width; first += kScaled) {
      const uint32_t count = std::min(kScaled, width - first);
      program.scalar_tensor_tensor(
          set.scaled.at(0, parts, 0, count), set.x.at(0, parts, first, count), NEURON_ALU_SUB,
          set.moments.at(0, parts, 0, 1), NEURON_ALU_MUL, weight.at(0, parts, first, count));
      program.scalar_tensor_tensor(
          set.y.at(0, parts, first, count), set.scaled.at(0, parts, 0, count), NEURON_ALU_MUL,
          tile.of(set.factor), NEURON_ALU_ADD, bias.at(0, parts, first, count));
    }
    program.dma(Engine::kPool, tile.of(y), tile.of(set.y));
  });
  return program.build();
}

Neff rms_norm(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns) {
  Program program(name);
  const Buffer x = program.input("x", dtype, {rows, columns});
  const Buffer y = program.output("y", dtype, {rows, columns});
  program.section("columns");
  const Tile weight = broadcast_row(program, "weight", dtype, columns);
  const Tile epsilon = constant_column(program, "epsilon", kNormEpsilon);
  const auto width = static_cast<uint32_t>(columns);
  struct Set {
    Tile x, squares, y, sum, factor;
  };
  std::array<Set, 2> sets;
  for (Set& set : sets) {
    set.x = program.sbuf("x", NEURON_PARTITIONS, width, dtype);
    set.squares = program.sbuf("squares", NEURON_PARTITIONS, width, dtype);
    set.y = program.sbuf("y", NEURON_PARTITIONS, width, dtype);
    set.sum = program.sbuf("sum of squares", NEURON_PARTITIONS, 1, kF32);
    set.factor = program.sbuf("factor", NEURON_PARTITIONS, 1, kF32);
  }
  const float share = 1.0F / static_cast<float>(columns);
  for_row_tiles(program, rows, [&](const RowTile& tile) {
    const Set& set = sets[tile.set];
    program.dma(Engine::kSp, tile.of(set.x), tile.of(x));
    // The accumulators sum the squares before they are rounded to the tile's type.
    program.activate(tile.of(set.squares), NEURON_ACT_SQUARE, tile.of(set.x),
                     {.reduce = NEURON_REDUCE_RESET_ACCUMULATE});
    program.read_accumulator(Engine::kActivation, tile.of(set.sum));
    program.activate(tile.of(set.factor), NEURON_ACT_RSQRT, tile.of(set.sum),
                     {.scale = share, .bias = tile.of(epsilon)});
    program.scalar_tensor_tensor(tile.of(set.y), tile.of(set.x), NEURON_ALU_MUL,
                                 tile.of(set.factor), NEURON_ALU_MUL, tile.of(weight));
    program.dma(Engine::kPool, tile.of(y), tile.of(set.y));
  });
  return program.build();
}

}  // namespace neuron::kernels
