// SPDX-License-Identifier: Apache-2.0
// RMS norm of each row, quantised to f8 with a scale of its own.
//
// Pool multiplies a row with the weights in f32 while Activation squares and sums it. DVE finds the
// greatest magnitude of the products, and from that and the row's factor the scale and what takes a
// product to its code; Activation writes the codes. The scale lies behind the codes of its row, so
// a row is one descriptor.
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
using runtime::fail;

namespace {

constexpr uint8_t kCode = NEURON_DTYPE_F8E4;
constexpr uint8_t kQuantGeneration = 3;
constexpr uint32_t kScaleBytes = 4;

// The tiles that 128 rows are worked on with.
struct Set {
  Tile x, squares, weighted, magnitudes, codes;
  Tile sum, factor, greatest, scale, inverse;
};

Set make_set(Program& program, uint8_t dtype, uint32_t width) {
  const auto column = [&](const char* name) { return program.sbuf(name, kParts, 1, kF32); };
  Set set;
  set.x = program.sbuf("x", kParts, width, dtype);
  set.squares = program.sbuf("squares", kParts, width, NEURON_DTYPE_BF16);
  set.weighted = program.sbuf("weighted", kParts, width, kF32);
  set.magnitudes = program.sbuf("magnitudes", kParts, width, NEURON_DTYPE_BF16);
  set.codes = program.sbuf("codes and scale", kParts, width + kScaleBytes, kCode);
  set.sum = column("sum of squares");
  set.factor = column("factor");
  set.greatest = column("greatest magnitude");
  set.scale = column("scale");
  set.inverse = column("inverse of the scale");
  return set;
}

// The accumulators of both engines see f32, before the tiles' types round it.
void quantise(Program& program, const Set& set, const RowTile& tile, const Tile& weight,
              const Tile& epsilon) {
  const uint32_t width = set.x.columns, parts = tile.parts();
  program.activate(tile.of(set.squares), NEURON_ACT_SQUARE, tile.of(set.x),
                   {.reduce = NEURON_REDUCE_RESET_ACCUMULATE});
  program.read_accumulator(Engine::kActivation, tile.of(set.sum));
  program.activate(tile.of(set.factor), NEURON_ACT_RSQRT, tile.of(set.sum),
                   {.scale = 1.0F / static_cast<float>(width), .bias = tile.of(epsilon)});
  program.tensor_tensor(Engine::kPool, tile.of(set.weighted), tile.of(set.x), NEURON_ALU_MUL,
                        tile.of(weight));
  program.tensor_scalar_reduce(tile.of(set.magnitudes), tile.of(set.weighted), NEURON_ALU_ABS_MAX,
                               0.0F, NEURON_ALU_MAX);
  program.read_accumulator(Engine::kDve, tile.of(set.greatest));
  program.tensor_scalar(Engine::kDve, tile.of(set.greatest), tile.of(set.greatest), NEURON_ALU_MUL,
                        tile.of(set.factor));
  program.tensor_scalar(Engine::kDve, tile.of(set.scale), tile.of(set.greatest), NEURON_ALU_MAX,
                        kQuantSmallest, NEURON_ALU_MUL, 1.0F / kQuantGreatest);
  program.reciprocal(tile.of(set.inverse), tile.of(set.scale));
  program.tensor_scalar(Engine::kDve, tile.of(set.inverse), tile.of(set.inverse), NEURON_ALU_MUL,
                        tile.of(set.factor));
  program.tensor_copy(Engine::kDve, set.codes.as(kF32).at(0, parts, width / kScaleBytes, 1),
                      tile.of(set.scale));
  program.activate(set.codes.at(0, parts, 0, width), NEURON_ACT_COPY, tile.of(set.weighted),
                   {.scale = tile.of(set.inverse)});
}

}  // namespace

Neff rms_norm_quant(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns,
                    uint8_t generation) {
  if (generation < kQuantGeneration) {
    return fail(NRT_INVALID,
                "rms_norm_quant \"{}\" for generation {}; products of its f8 are of generations {} "
                "and later (trn2, trn3)",
                name, generation, kQuantGeneration);
  }
  if (rows == 0 || columns == 0 || columns % kScaleBytes != 0 || columns > INT16_MAX ||
      (dtype != kF32 && dtype != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "rms_norm_quant \"{}\" of [{}, {}], {}; expected f32 or bf16, and columns a "
                "multiple of {} up to 32764",
                name, rows, columns, isa::dtype_name(dtype), kScaleBytes);
  }
  Program program(name, generation);
  const Buffer x = program.input("x", dtype, {rows, columns});
  const Buffer y = program.output("y", kCode, {rows, columns + kScaleBytes});
  program.section("columns");
  const Tile weight = broadcast_row(program, "weight", dtype, columns);
  const Tile epsilon = constant_column(program, "epsilon", kNormEpsilon);
  const auto width = static_cast<uint32_t>(columns);
  const std::array<Set, 2> sets = {make_set(program, dtype, width),
                                   make_set(program, dtype, width)};
  for_row_tiles(program, rows, [&](const RowTile& tile) {
    const Set& set = sets[tile.set];
    program.dma(Engine::kSp, tile.of(set.x), tile.of(x));
    quantise(program, set, tile, weight, epsilon);
    program.dma(Engine::kActivation, tile.of(y), tile.of(set.codes));
  });
  return program.build();
}

}  // namespace neuron::kernels
