// SPDX-License-Identifier: Apache-2.0
// Kernels without a matrix product: empty, tensor_add, softmax.
#include <algorithm>
#include <array>

#include "tools/kernels/kernels.h"
#include "tools/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;

namespace {

constexpr std::uint64_t kRows = NEURON_PARTITIONS;

}  // namespace

Neff empty() {
  Program program("empty");
  for (Engine engine :
       {Engine::kPe, Engine::kActivation, Engine::kPool, Engine::kDve, Engine::kSp}) {
    program.use(engine);
  }
  return program.build();
}

Neff tensor_add(const std::string& name, std::uint8_t dtype, std::uint64_t rows,
                std::uint64_t columns) {
  Program program(name);
  const Buffer a = program.input("a", dtype, {rows, columns});
  const Buffer b = program.input("b", dtype, {rows, columns});
  const Buffer sum = program.output("sum", dtype, {rows, columns});
  const auto width = static_cast<std::uint32_t>(columns);
  // Two sets of tiles: one is computed on while the other one is loaded or stored.
  std::array<std::array<Tile, 3>, 2> sets;
  for (auto& set : sets) {
    for (Tile& tile : set) tile = program.sbuf("rows of a tensor", kRows, width, dtype);
  }
  for (std::uint64_t row = 0; row < rows; row += kRows) {
    const std::uint64_t count = std::min(kRows, rows - row);
    const auto parts = static_cast<std::uint32_t>(count);
    const auto& [left, right, out] = sets[row / kRows % 2];
    program.section("rows_" + std::to_string(row));
    program.dma(Engine::kSp, left.row_range(0, parts), a.block(row, count, 0, columns));
    program.dma(Engine::kActivation, right.row_range(0, parts), b.block(row, count, 0, columns));
    program.tensor_tensor(Engine::kDve, out.row_range(0, parts), left.row_range(0, parts),
                          NEURON_ALU_ADD, right.row_range(0, parts));
    program.dma(Engine::kPool, sum.block(row, count, 0, columns), out.row_range(0, parts));
  }
  return program.build();
}

Neff softmax(const std::string& name, std::uint8_t dtype, std::uint64_t rows,
             std::uint64_t columns) {
  Program program(name);
  const Buffer x = program.input("x", dtype, {rows, columns});
  const Buffer y = program.output("y", dtype, {rows, columns});
  const auto width = static_cast<std::uint32_t>(columns);
  struct Set {
    Tile x, exponentials, y, lowered, sum, factor;
  };
  std::array<Set, 2> sets;
  for (Set& set : sets) {
    set.x = program.sbuf("x", kRows, width, dtype);
    set.exponentials = program.sbuf("exponentials", kRows, width, NEURON_DTYPE_F32);
    set.y = program.sbuf("y", kRows, width, dtype);
    set.lowered = program.sbuf("negated maximum", kRows, 1, NEURON_DTYPE_F32);
    set.sum = program.sbuf("sum", kRows, 1, NEURON_DTYPE_F32);
    set.factor = program.sbuf("factor", kRows, 1, NEURON_DTYPE_F32);
  }
  for (std::uint64_t row = 0; row < rows; row += kRows) {
    const std::uint64_t count = std::min(kRows, rows - row);
    const auto parts = static_cast<std::uint32_t>(count);
    const Set& set = sets[row / kRows % 2];
    const auto part = [&](const Tile& tile) { return tile.row_range(0, parts); };
    program.section("rows_" + std::to_string(row));
    program.dma(Engine::kSp, part(set.x), x.block(row, count, 0, columns));
    // exp(x - max) cannot overflow, and the greatest term of the sum is 1.
    program.tensor_reduce(part(set.lowered), NEURON_ALU_MAX, part(set.x), 1, true);
    program.activate(part(set.exponentials), NEURON_ACT_EXP, part(set.x),
                     {.bias = part(set.lowered), .reduce = NEURON_REDUCE_RESET_ACCUMULATE});
    program.read_accumulator(Engine::kActivation, part(set.sum));
    program.reciprocal(part(set.factor), part(set.sum));
    program.tensor_scalar(Engine::kDve, part(set.y), part(set.exponentials), NEURON_ALU_MUL,
                          part(set.factor));
    program.dma(Engine::kPool, y.block(row, count, 0, columns), part(set.y));
  }
  return program.build();
}

}  // namespace neuron::kernels
