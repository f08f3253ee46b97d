// SPDX-License-Identifier: Apache-2.0
// Softmax of each row: exp(x - max) / sum, whose greatest numerator is 1 so that nothing overflows.
#include <array>

#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/row_tiles.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;

Neff softmax(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns) {
  Program program(name);
  const Buffer x = program.input("x", dtype, {rows, columns});
  const Buffer y = program.output("y", dtype, {rows, columns});
  const auto width = static_cast<uint32_t>(columns);
  struct Set {
    Tile x, exponentials, y, lowered, sum, factor;
  };
  std::array<Set, 2> sets;
  for (Set& set : sets) {
    set.x = program.sbuf("x", NEURON_PARTITIONS, width, dtype);
    set.exponentials = program.sbuf("exponentials", NEURON_PARTITIONS, width, NEURON_DTYPE_F32);
    set.y = program.sbuf("y", NEURON_PARTITIONS, width, dtype);
    set.lowered = program.sbuf("negated maximum", NEURON_PARTITIONS, 1, NEURON_DTYPE_F32);
    set.sum = program.sbuf("sum", NEURON_PARTITIONS, 1, NEURON_DTYPE_F32);
    set.factor = program.sbuf("factor", NEURON_PARTITIONS, 1, NEURON_DTYPE_F32);
  }
  for_row_tiles(program, rows, [&](const RowTile& tile) {
    const Set& set = sets[tile.set];
    program.dma(Engine::kSp, tile.of(set.x), tile.of(x));
    program.tensor_reduce(tile.of(set.lowered), NEURON_ALU_MAX, tile.of(set.x), 1, true);
    program.activate(tile.of(set.exponentials), NEURON_ACT_EXP, tile.of(set.x),
                     {.bias = tile.of(set.lowered), .reduce = NEURON_REDUCE_RESET_ACCUMULATE});
    program.read_accumulator(Engine::kActivation, tile.of(set.sum));
    program.reciprocal(tile.of(set.factor), tile.of(set.sum));
    program.tensor_scalar(Engine::kDve, tile.of(set.y), tile.of(set.exponentials), NEURON_ALU_MUL,
                          tile.of(set.factor));
    program.dma(Engine::kPool, tile.of(y), tile.of(set.y));
  });
  return program.build();
}

}  // namespace neuron::kernels
