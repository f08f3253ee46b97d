// SPDX-License-Identifier: Apache-2.0
//
// The operands of an operation: a part of an on-chip tile, or a part of a buffer in HBM.
//
// A Tile lives in SBUF or PSUM: rows are partitions, columns lie one behind the other inside a
// partition. Its methods name parts of it; nothing is copied. A Buffer is an HBM variable of the
// program, seen as a matrix whose rows are its last dimension. In a hardware loop, an access may
// advance by a distance with each round (Program::loop), and by one for each unit of an Index.
// Callers: kernels, through Program.
// Plain values. A default-constructed one is "absent"; operations on it are skipped, because an
// error has been recorded before. Thread-safe: values.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_ACCESS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_ACCESS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "hw/isa.h"

namespace neuron::builder {

// A number that the engines hold while the program runs: the round of a loop, or a number that
// ControlFlow declared. A default-constructed one is absent.
struct Index {
  uint32_t number = 0;
  uint32_t program = 0;  // That made it: Indexes::program()
  bool present() const { return number != 0; }
};

// How far an access lies behind its first place: `bytes` for each unit of the index.
struct Motion {
  uint32_t index = 0;
  uint32_t program = 0;  // Of the index, until the access is part of a program
  int64_t bytes = 0;
  bool operator==(const Motion&) const = default;
};

// All motions of an access, by ascending index.
class Motions {
 public:
  static constexpr size_t kMost = 3;

  // Adds up motions of one index. Beyond kMost, fits() is false.
  void add(Motion motion);
  void remove(uint32_t index);
  bool empty() const { return count_ == 0; }
  bool fits() const { return fits_; }
  const Motion* begin() const { return list_.data(); }
  const Motion* end() const { return list_.data() + count_; }
  bool operator==(const Motions&) const = default;

 private:
  std::array<Motion, kMost> list_{};
  uint32_t count_ = 0;
  bool fits_ = true;
};

// The tile of offsets of an indirect access (hw/isa.h, "operand").
struct OffsetTile {
  uint32_t start = 0;
  uint32_t parts = 0;
  uint32_t base = 0;
  uint32_t columns = 0;  // 0: the access is direct
  uint8_t dtype = NEURON_DTYPE_NONE;
  bool fits = true;  // Base and index are dense, and the index lies still in SBUF
  bool present() const { return columns != 0; }
};

// Elements of a tile: partitions times up to four free dimensions, innermost first.
struct TileAccess {
  uint8_t space = NEURON_SPACE_ABSENT;
  uint8_t dtype = NEURON_DTYPE_NONE;
  uint32_t start = 0;  // First partition of the core
  uint32_t parts = 0;
  uint32_t base = 0;  // Byte in the partition
  uint32_t ndim = 0;
  std::array<uint32_t, 4> size{};
  std::array<int32_t, 4> step{};  // In elements
  bool inside = true;             // Lies in its tile; Program refuses it otherwise
  uint32_t tile = 0;              // Which of the program's tiles, for names; 0 = none
  int64_t advance = 0;            // Bytes that the base moves with each round of the loop
  Motions motions;
  OffsetTile offsets;
  uint32_t reach = 0;  // Of an indirect access: the elements that its offsets may name

  bool present() const { return space != NEURON_SPACE_ABSENT; }
  uint64_t elements() const;  // Of one partition
  // The lowest byte in the partition, and the byte behind the highest element.
  uint64_t first_byte() const;
  uint64_t end_byte() const;
  // The only dimension as `outer` rows of equal size.
  TileAccess split(uint32_t outer) const;
  // The whole access, repeated `times` times: a further, outermost dimension of step 0.
  TileAccess repeated(uint32_t times) const;
  // Each element repeated `times` times: a further, innermost dimension of step 0.
  TileAccess stretched(uint32_t times) const;
  // The dimensions in another order, innermost first: order[d] is the old number of dimension d.
  TileAccess reordered(std::initializer_list<uint32_t> order) const;
  // Generation 4: `count` elements of this access, in the order of the offsets that `index` holds
  // for each group of 16 partitions, of 32 on PE. A source gathers them, a destination scatters.
  TileAccess indirect(const TileAccess& index, uint32_t count) const;
  // In a loop: moves by `elements` with each round.
  TileAccess advancing(int64_t elements) const;
  // Moves by `elements` for each unit of the index.
  TileAccess advancing(int64_t elements, Index index) const;
};

struct Tile {
  uint8_t space = NEURON_SPACE_ABSENT;
  uint8_t dtype = NEURON_DTYPE_NONE;
  uint32_t start = 0;
  uint32_t parts = 0;
  uint32_t base = 0;
  uint32_t columns = 0;
  uint32_t tile = 0;  // As in TileAccess

  bool present() const { return space != NEURON_SPACE_ABSENT; }
  TileAccess all() const { return at(0, parts, 0, columns); }
  TileAccess column_range(uint32_t first, uint32_t count) const {
    return at(0, parts, first, count);
  }
  TileAccess row_range(uint32_t first, uint32_t count) const {
    return at(first, count, 0, columns);
  }
  TileAccess at(uint32_t first_row, uint32_t rows, uint32_t first_column, uint32_t count) const;
  // Every `step`-th of `count` columns.
  TileAccess strided(uint32_t first_column, uint32_t count, int32_t step) const {
    return pattern(0, parts, first_column, {count}, {step});
  }
  // Up to four dimensions, innermost first, steps in elements: 0 broadcasts, negative runs back.
  TileAccess pattern(uint32_t first_row, uint32_t rows, uint32_t first_column,
                     std::initializer_list<uint32_t> sizes,
                     std::initializer_list<int32_t> steps) const;
  // The same bytes as elements of another type.
  Tile as(uint8_t other) const;
};

// Bytes of a buffer: runs of sizes[0] contiguous bytes, then counts; steps in bytes.
struct BufferAccess {
  int32_t buffer = -1;
  uint64_t offset = 0;
  uint32_t ndim = 1;
  std::array<uint64_t, 4> size{1, 1, 1, 1};
  std::array<int64_t, 4> step{1, 0, 0, 0};

  uint8_t dtype = NEURON_DTYPE_NONE;  // For transfers that compute
  int64_t advance = 0;                // Bytes that it moves with each round of the loop
  Motions motions;

  bool present() const { return buffer >= 0; }
  // In a loop: moves by `distance` bytes with each round.
  BufferAccess advancing(int64_t distance) const;
  // Moves by `distance` bytes for each unit of the index.
  BufferAccess advancing(int64_t distance, Index index) const;
  uint64_t bytes() const { return size[0] * size[1] * size[2] * size[3]; }
};

struct Buffer {
  int32_t index = -1;
  uint8_t dtype = NEURON_DTYPE_NONE;
  uint64_t rows = 0;     // Product of all dimensions but the last
  uint64_t columns = 0;  // The last dimension

  bool present() const { return index >= 0; }
  BufferAccess all() const { return block(0, rows, 0, columns); }
  // Row i of the block goes to or comes from partition i of a tile.
  BufferAccess block(uint64_t first_row, uint64_t row_count, uint64_t first_column,
                     uint64_t column_count) const;
  // Rows of a block, which moves by `row_step` rows with each round of a loop.
  BufferAccess rows_of_round(uint64_t first_row, uint64_t row_count, int64_t row_step) const;
  // Elements from `first` as up to four dimensions, innermost first; steps in elements.
  BufferAccess pattern(uint64_t first, std::initializer_list<uint64_t> sizes,
                       std::initializer_list<int64_t> steps) const;
  // The whole buffer as one column: element i belongs to partition i.
  BufferAccess as_column() const;
  // The whole buffer, once for each of `partitions`.
  BufferAccess broadcast(uint32_t partitions) const;
};

}  // namespace neuron::builder

#endif
