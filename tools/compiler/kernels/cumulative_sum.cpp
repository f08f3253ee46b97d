// SPDX-License-Identifier: Apache-2.0
// The running sum of each row: DVE's scan, state = 1 * state + x. A row that is longer than a tile
// is summed in pieces; each goes on from the last sum of the one before, which is kept in f32.
#include <algorithm>
#include <array>
#include <bit>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/row_tiles.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

namespace {

constexpr uint32_t kPiece = 4096;  // Columns

}  // namespace

Neff cumulative_sum(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns) {
  if (rows == 0 || columns == 0 || columns > UINT32_MAX ||
      (dtype != NEURON_DTYPE_F32 && dtype != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "cumulative_sum \"{}\" of [{}, {}], {}; expected f32 or bf16, at least one row and "
                "one column",
                name, rows, columns, isa::dtype_name(dtype));
  }
  Program program(name);
  const Buffer x = program.input("x", dtype, {rows, columns});
  const Buffer y = program.output("y", dtype, {rows, columns});
  const auto width = static_cast<uint32_t>(columns);
  const uint32_t pieces = (width + kPiece - 1) / kPiece;
  const uint32_t widest = std::min(width, kPiece);
  const bool narrow = dtype != NEURON_DTYPE_F32;
  const Tile one = program.sbuf("one", NEURON_PARTITIONS, 1, NEURON_DTYPE_F32);
  program.memset(Engine::kPool, one.all(), std::bit_cast<uint32_t>(1.0F));
  struct Set {
    Tile x, sums, y;
  };
  std::array<Set, 2> sets;
  for (Set& set : sets) {
    set.x = program.sbuf("x", NEURON_PARTITIONS, widest, dtype);
    set.sums = program.sbuf("sums", NEURON_PARTITIONS, widest, NEURON_DTYPE_F32);
    set.y = narrow ? program.sbuf("y", NEURON_PARTITIONS, widest, dtype) : set.sums;
  }
  for_row_tiles(program, rows, [&](const RowTile& tile) {
    const uint32_t parts = tile.parts();
    const auto block = [&](const Buffer& buffer, uint32_t first, uint32_t count) {
      return buffer.block(tile.first, tile.rows, first, count)
          .advancing(tile.step * static_cast<int64_t>(columns * isa::dtype_bytes(dtype)));
    };
    for (uint32_t piece = 0; piece < pieces; ++piece) {
      const Set& set = sets[(tile.set * pieces + piece) % 2];
      const Set& before = sets[(tile.set * pieces + piece + 1) % 2];
      const uint32_t first = piece * kPiece, count = std::min(kPiece, width - first);
      const builder::ScalarArgument initial =
          piece == 0 ? builder::ScalarArgument(0.0F) : before.sums.at(0, parts, kPiece - 1, 1);
      program.dma(Engine::kSp, set.x.at(0, parts, 0, count), block(x, first, count));
      program.tensor_tensor_scan(set.sums.at(0, parts, 0, count),
                                 one.pattern(0, parts, 0, {count}, {0}), NEURON_ALU_MUL,
                                 NEURON_ALU_ADD, set.x.at(0, parts, 0, count), initial);
      if (narrow) {
        program.activate(set.y.at(0, parts, 0, count), NEURON_ACT_COPY,
                         set.sums.at(0, parts, 0, count));
      }
      program.dma(Engine::kPool, block(y, first, count), set.y.at(0, parts, 0, count));
    }
  });
  return program.build();
}

}  // namespace neuron::kernels
