// SPDX-License-Identifier: Apache-2.0
//
// What an operation works on: a part of an on-chip tile, or a part of a buffer in HBM.
//
// A Tile lives in SBUF or PSUM: rows are partitions, columns lie one behind the other inside a
// partition. Its methods name parts of it; nothing is copied. A Buffer is an HBM variable of the
// program, seen as a matrix whose rows are its last dimension. In a hardware loop, an access may
// advance by a distance with each round (Program::loop). Callers: kernels, through Program.
// Plain values; a default-constructed one is "absent" and operations on it are skipped, as an error
// has been recorded before. Thread-safe: values.
#ifndef TOOLS_PROGRAM_BUILDER_ACCESS_H_
#define TOOLS_PROGRAM_BUILDER_ACCESS_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "hw/isa.h"

namespace neuron::builder {

// Elements of a tile: partitions times up to four free dimensions, innermost first.
struct TileAccess {
  std::uint8_t space = NEURON_SPACE_ABSENT;
  std::uint8_t dtype = NEURON_DTYPE_NONE;
  std::uint32_t start = 0;  // First partition of the core
  std::uint32_t parts = 0;
  std::uint32_t base = 0;  // Byte in the partition
  std::uint32_t ndim = 0;
  std::array<std::uint32_t, 4> size{};
  std::array<std::int32_t, 4> step{};  // In elements
  bool inside = true;                  // Lies in its tile; Program refuses it otherwise
  std::uint32_t tile = 0;              // Which of the program's tiles, for names; 0 = none
  std::int64_t advance = 0;            // Bytes that the base moves with each round of the loop

  bool present() const { return space != NEURON_SPACE_ABSENT; }
  std::uint64_t elements() const;  // Of one partition
  // Bytes of a partition from the lowest to behind the highest element.
  std::uint64_t first_byte() const;
  std::uint64_t end_byte() const;
  // The only dimension as `outer` rows of equal size.
  TileAccess split(std::uint32_t outer) const;
  // All of it, `times` times one behind the other: a further, outermost dimension of step 0.
  TileAccess repeated(std::uint32_t times) const;
  // Each element `times` times in a row: a further, innermost dimension of step 0.
  TileAccess stretched(std::uint32_t times) const;
  // The dimensions in another order, innermost first: order[d] is the old number of dimension d.
  TileAccess reordered(std::initializer_list<std::uint32_t> order) const;
  // In a loop: `elements` further with each round.
  TileAccess advancing(std::int64_t elements) const;
};

struct Tile {
  std::uint8_t space = NEURON_SPACE_ABSENT;
  std::uint8_t dtype = NEURON_DTYPE_NONE;
  std::uint32_t start = 0;
  std::uint32_t parts = 0;
  std::uint32_t base = 0;
  std::uint32_t columns = 0;
  std::uint32_t tile = 0;  // As in TileAccess

  bool present() const { return space != NEURON_SPACE_ABSENT; }
  TileAccess all() const { return at(0, parts, 0, columns); }
  TileAccess column_range(std::uint32_t first, std::uint32_t count) const {
    return at(0, parts, first, count);
  }
  TileAccess row_range(std::uint32_t first, std::uint32_t count) const {
    return at(first, count, 0, columns);
  }
  TileAccess at(std::uint32_t first_row, std::uint32_t rows, std::uint32_t first_column,
                std::uint32_t columns) const;
  // Every `step`-th of `count` columns.
  TileAccess strided(std::uint32_t first_column, std::uint32_t count, std::int32_t step) const {
    return pattern(0, parts, first_column, {count}, {step});
  }
  // Up to four dimensions, innermost first, steps in elements: 0 broadcasts, negative runs back.
  TileAccess pattern(std::uint32_t first_row, std::uint32_t rows, std::uint32_t first_column,
                     std::initializer_list<std::uint32_t> sizes,
                     std::initializer_list<std::int32_t> steps) const;
  // The same bytes as elements of another type.
  Tile as(std::uint8_t other) const;
};

// Bytes of a buffer: runs of sizes[0] contiguous bytes, then counts; steps in bytes.
struct BufferAccess {
  std::int32_t buffer = -1;
  std::uint64_t offset = 0;
  std::uint32_t ndim = 1;
  std::array<std::uint64_t, 4> size{1, 1, 1, 1};
  std::array<std::int64_t, 4> step{1, 0, 0, 0};

  std::uint8_t dtype = NEURON_DTYPE_NONE;  // For transfers that compute
  std::int64_t advance = 0;                // Bytes that it moves with each round of the loop

  bool present() const { return buffer >= 0; }
  // In a loop: `distance` bytes further with each round.
  BufferAccess advancing(std::int64_t distance) const;
  std::uint64_t bytes() const { return size[0] * size[1] * size[2] * size[3]; }
};

struct Buffer {
  std::int32_t index = -1;
  std::uint8_t dtype = NEURON_DTYPE_NONE;
  std::uint64_t rows = 0;     // Product of all dimensions but the last
  std::uint64_t columns = 0;  // The last dimension

  bool present() const { return index >= 0; }
  BufferAccess all() const { return block(0, rows, 0, columns); }
  // Row i of the block goes to or comes from partition i of a tile.
  BufferAccess block(std::uint64_t first_row, std::uint64_t rows, std::uint64_t first_column,
                     std::uint64_t columns) const;
  // Rows of a block, and with each round of a loop `row_step` rows further.
  BufferAccess rows_of_round(std::uint64_t first_row, std::uint64_t row_count,
                             std::int64_t row_step) const;
  // Elements from `first` as up to four dimensions, innermost first; steps in elements.
  BufferAccess pattern(std::uint64_t first, std::initializer_list<std::uint64_t> sizes,
                       std::initializer_list<std::int64_t> steps) const;
  // The whole buffer as one column: element i belongs to partition i.
  BufferAccess as_column() const;
  // The whole buffer, once for each of `partitions`.
  BufferAccess broadcast(std::uint32_t partitions) const;
};

}  // namespace neuron::builder

#endif  // TOOLS_PROGRAM_BUILDER_ACCESS_H_
