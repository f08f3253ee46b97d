// SPDX-License-Identifier: Apache-2.0
//
// For kernels that compute each row of a matrix alone: tiles of 128 rows in two sets of tiles. One
// set is computed on while the other is loaded or stored. Many tiles are done in a hardware loop.
// Callers: kernels. Thread-safe: no state. Cannot fail; Program keeps errors.
#ifndef TOOLS_COMPILER_KERNELS_ROW_TILES_H
#define TOOLS_COMPILER_KERNELS_ROW_TILES_H

#include <algorithm>
#include <cstdint>
#include <string>

#include "tools/compiler/program_builder/program.h"

namespace neuron::kernels {

struct RowTile {
  uint64_t first = 0;
  uint64_t rows = 0;
  int64_t step = 0;  // Rows from one round of the loop to the next
  unsigned set = 0;  // 0 or 1

  uint32_t parts() const { return static_cast<uint32_t>(rows); }
  builder::BufferAccess of(const builder::Buffer& buffer) const {
    return buffer.rows_of_round(first, rows, step);
  }
  builder::TileAccess of(const builder::Tile& tile) const { return tile.row_range(0, parts()); }
};

// Calls body(RowTile) for each tile of `rows` rows.
template <class Body>
void for_row_tiles(builder::Program& program, uint64_t rows, const Body& body) {
  constexpr uint64_t kRows = NEURON_PARTITIONS;
  constexpr uint64_t kPair = 2 * kRows;
  uint64_t row = 0;
  if (const uint64_t pairs = rows / kPair; pairs >= 2) {
    program.section("rows_in_pairs");
    program.loop(static_cast<uint32_t>(pairs), [&] {
      for (unsigned set = 0; set < 2; ++set) {
        body(RowTile{set * kRows, kRows, int64_t{kPair}, set});
      }
    });
    row = pairs * kPair;
  }
  for (; row < rows; row += kRows) {
    program.section("rows_" + std::to_string(row));
    body(RowTile{row, std::min(kRows, rows - row), 0, static_cast<unsigned>(row / kRows % 2)});
  }
}

}  // namespace neuron::kernels

#endif
