// SPDX-License-Identifier: Apache-2.0
// y [columns, rows] = transpose of x [rows, columns], in the three ways that the core has.
#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

namespace {

constexpr uint64_t kSide = NEURON_PARTITIONS;
constexpr uint32_t kQuadrant = 32;

struct Square {
  Tile from, to, sum;  // sum: PSUM
};

// PE transposes a whole tile into PSUM, from where it is copied.
void transpose_on_pe(Program& program, const Square& set, uint32_t rows, uint32_t columns) {
  const auto sum = set.sum.at(0, columns, 0, rows);
  program.transpose(sum, set.from.at(0, rows, 0, columns));
  program.tensor_copy(Engine::kDve, set.to.at(0, columns, 0, rows), sum);
}

// DVE transposes 32 x 32 elements and can write them to another quadrant.
void transpose_on_dve(Program& program, const Square& set, uint32_t rows, uint32_t columns) {
  for (uint32_t row = 0; row < rows; row += kQuadrant) {
    for (uint32_t column = 0; column < columns; column += kQuadrant) {
      program.transpose32(set.to.at(column, kQuadrant, row, kQuadrant),
                          set.from.at(row, kQuadrant, column, kQuadrant));
    }
  }
}

}  // namespace

Neff transpose(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns,
               TransposeBy by) {
  Program program(name);
  const Buffer x = program.input("x", dtype, {rows, columns});
  const Buffer y = program.output("y", dtype, {columns, rows});
  if (by == TransposeBy::kDma) {
    program.section("transfer");
    program.dma_compute(
        Engine::kSp, y.all(), {x.all()},
        {.operation = NEURON_DMA_TRANSPOSE,
         .transpose_shape = {1, static_cast<uint32_t>(rows), static_cast<uint32_t>(columns), 1}});
    return program.build();
  }
  if (by == TransposeBy::kDve && (rows % kQuadrant || columns % kQuadrant)) {
    return fail(NRT_INVALID, "transpose \"{}\" of [{}, {}] by DVE; expected multiples of 32", name,
                rows, columns);
  }
  std::array<Square, 2> sets;
  for (Square& set : sets) {
    set.from = program.sbuf("x", kSide, kSide, dtype);
    set.to = program.sbuf("y", kSide, kSide, dtype);
    if (by == TransposeBy::kPe) set.sum = program.psum("y", kSide, kSide, dtype);
  }
  unsigned next = 0;
  for (uint64_t row = 0; row < rows; row += kSide) {
    for (uint64_t column = 0; column < columns; column += kSide) {
      const uint64_t high = std::min(kSide, rows - row);
      const uint64_t wide = std::min(kSide, columns - column);
      const auto h = static_cast<uint32_t>(high), w = static_cast<uint32_t>(wide);
      const Square& set = sets[next++ % 2];
      program.section("tile_" + std::to_string(row) + "_" + std::to_string(column));
      program.dma(Engine::kSp, set.from.at(0, h, 0, w), x.block(row, high, column, wide));
      (by == TransposeBy::kPe ? transpose_on_pe : transpose_on_dve)(program, set, h, w);
      program.dma(Engine::kPool, y.block(column, wide, row, high), set.to.at(0, w, 0, h));
    }
  }
  return program.build();
}

}  // namespace neuron::kernels
