// SPDX-License-Identifier: Apache-2.0
// Kernels that compute each element alone: empty, tensor_add, gelu.
#include <array>

#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/row_tiles.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;

Neff empty() {
  Program program("empty");
  for (Engine engine :
       {Engine::kPe, Engine::kActivation, Engine::kPool, Engine::kDve, Engine::kSp}) {
    program.use(engine);
  }
  return program.build();
}

Neff tensor_add(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns) {
  Program program(name);
  const Buffer a = program.input("a", dtype, {rows, columns});
  const Buffer b = program.input("b", dtype, {rows, columns});
  const Buffer sum = program.output("sum", dtype, {rows, columns});
  const auto width = static_cast<uint32_t>(columns);
  struct Set {
    Tile left, right, out;
  };
  std::array<Set, 2> sets;
  for (Set& set : sets) {
    for (Tile* tile : {&set.left, &set.right, &set.out}) {
      *tile = program.sbuf("rows of a tensor", NEURON_PARTITIONS, width, dtype);
    }
  }
  for_row_tiles(program, rows, [&](const RowTile& tile) {
    const Set& set = sets[tile.set];
    program.dma(Engine::kSp, tile.of(set.left), tile.of(a));
    program.dma(Engine::kActivation, tile.of(set.right), tile.of(b));
    program.tensor_tensor(Engine::kDve, tile.of(set.out), tile.of(set.left), NEURON_ALU_ADD,
                          tile.of(set.right));
    program.dma(Engine::kPool, tile.of(sum), tile.of(set.out));
  });
  return program.build();
}

Neff gelu(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns) {
  Program program(name);
  const Buffer x = program.input("x", dtype, {rows, columns});
  const Buffer y = program.output("y", dtype, {rows, columns});
  const auto width = static_cast<uint32_t>(columns);
  struct Set {
    Tile x, y;
  };
  std::array<Set, 2> sets;
  for (Set& set : sets) {
    set.x = program.sbuf("x", NEURON_PARTITIONS, width, dtype);
    set.y = program.sbuf("y", NEURON_PARTITIONS, width, dtype);
  }
  for_row_tiles(program, rows, [&](const RowTile& tile) {
    const Set& set = sets[tile.set];
    program.dma(Engine::kSp, tile.of(set.x), tile.of(x));
    program.activate(tile.of(set.y), NEURON_ACT_GELU, tile.of(set.x));
    program.dma(Engine::kPool, tile.of(y), tile.of(set.y));
  });
  return program.build();
}

}  // namespace neuron::kernels
