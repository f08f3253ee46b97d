// SPDX-License-Identifier: Apache-2.0
// The place of a buffer on its chip: one contiguous range, or rows of a core's SBUF.
//
// Concepts. Schedules count the bytes of a buffer from 0. In rows, byte b is in row b / row_bytes.
// `rows` rows, `stride` apart (one a partition), are a block; the next block lies behind it in the
// same rows. So one buffer is a tile of SBUF, and several buffers one behind the other are tiles
// beside one another. A descriptor is contiguous; run() tells its writer how far it may go.
// Callers: interleaving, compiler, ring writer. Thread-safe: values. Cannot fail: a place is
// checked before it is made.
#ifndef CCOM_DEVICE_BUFFER_PLACE_H
#define CCOM_DEVICE_BUFFER_PLACE_H

#include <cstdint>

#include "ccom/schedule/step.h"

namespace neuron::ccom {

struct BufferPlace {
  BufferPlace() = default;
  BufferPlace(uint64_t in_one_piece) : address(in_one_piece) {}  // NOLINT: an address is a place
  BufferPlace(uint64_t first, uint64_t row, uint64_t count, uint64_t apart)
      : address(first), row_bytes(count == 1 ? 0 : row), rows(count), stride(apart) {}

  uint64_t address = 0;
  uint64_t row_bytes = 0;  // 0: contiguous
  uint64_t rows = 1;
  uint64_t stride = 0;

  uint64_t at(uint64_t offset) const {
    if (row_bytes == 0) return address + offset;
    const uint64_t row = offset / row_bytes;
    return address + row % rows * stride + row / rows * row_bytes + offset % row_bytes;
  }
  // How many bytes from `offset` on are contiguous.
  uint64_t run(uint64_t offset) const {
    return row_bytes == 0 ? UINT64_MAX : row_bytes - offset % row_bytes;
  }

  bool operator==(const BufferPlace&) const = default;
};

// The bytes of a buffer from `offset` on.
struct Region {
  BufferPlace place;
  uint64_t offset = 0;

  uint64_t at(uint64_t byte) const { return place.at(offset + byte); }
  uint64_t run(uint64_t byte) const { return place.run(offset + byte); }
  bool operator==(const Region&) const = default;
};

// The buffers of a rank, as its own chip sees them. Input and output are disjoint or the same.
struct RankBuffers {
  BufferPlace input;
  BufferPlace output;
  BufferPlace scratch;

  const BufferPlace& of(Buffer buffer) const {
    return buffer == Buffer::kInput ? input : buffer == Buffer::kOutput ? output : scratch;
  }
  Region region(const Slice& slice) const { return {of(slice.buffer), slice.offset}; }
  // Numbers the bytes in buffer order, to find overlaps. The number is the address; for rows, whose
  // addresses have gaps, it is a number beyond all addresses.
  uint64_t number(const Slice& slice) const {
    const BufferPlace& place = of(slice.buffer);
    if (place.row_bytes == 0) return place.address + slice.offset;
    const bool own = slice.buffer == Buffer::kOutput && !(output == input);
    return (own ? kOutputRows : kInputRows) + slice.offset;
  }

 private:
  static constexpr uint64_t kInputRows = uint64_t{1} << 62, kOutputRows = uint64_t{3} << 61;
};

}  // namespace neuron::ccom

#endif
