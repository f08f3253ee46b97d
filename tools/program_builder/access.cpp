// SPDX-License-Identifier: Apache-2.0
#include "tools/program_builder/access.h"

#include "driver/isa/instruction.h"

namespace neuron::builder {

std::uint64_t TileAccess::elements() const {
  std::uint64_t count = 1;
  for (std::uint32_t d = 0; d < ndim; ++d) count *= size[d];
  return count;
}

std::uint64_t TileAccess::first_byte() const {
  std::int64_t first = base;
  const std::int64_t element = isa::dtype_bytes(dtype);
  for (std::uint32_t d = 0; d < ndim; ++d) {
    if (step[d] < 0) first += (std::int64_t{size[d]} - 1) * step[d] * element;
  }
  return static_cast<std::uint64_t>(first);
}

std::uint64_t TileAccess::end_byte() const {
  std::int64_t last = base;
  const std::int64_t element = isa::dtype_bytes(dtype);
  for (std::uint32_t d = 0; d < ndim; ++d) {
    if (step[d] > 0) last += (std::int64_t{size[d]} - 1) * step[d] * element;
  }
  return static_cast<std::uint64_t>(last + element);
}

TileAccess TileAccess::split(std::uint32_t outer) const {
  TileAccess part = *this;
  if (!present()) return part;
  if (ndim != 1 || outer == 0 || size[0] % outer != 0) {
    part.inside = false;
    return part;
  }
  part.ndim = 2;
  part.size = {size[0] / outer, outer, 0, 0};
  part.step = {step[0], static_cast<std::int32_t>(part.size[0]) * step[0], 0, 0};
  return part;
}

TileAccess Tile::at(std::uint32_t first_row, std::uint32_t rows, std::uint32_t first_column,
                    std::uint32_t count) const {
  if (!present()) return {};
  TileAccess part;
  part.space = space;
  part.dtype = dtype;
  part.start = start + first_row;
  part.parts = rows;
  part.base = base + first_column * isa::dtype_bytes(dtype);
  part.ndim = 1;
  part.size[0] = count;
  part.step[0] = 1;
  part.inside = rows >= 1 && count >= 1 && first_row <= parts && rows <= parts - first_row &&
                first_column <= columns && count <= columns - first_column;
  return part;
}

BufferAccess Buffer::block(std::uint64_t first_row, std::uint64_t row_count,
                           std::uint64_t first_column, std::uint64_t column_count) const {
  if (!present()) return {};
  const std::uint64_t element = isa::dtype_bytes(dtype);
  BufferAccess access;
  access.buffer = index;
  access.offset = (first_row * columns + first_column) * element;
  access.ndim = 2;
  access.size = {column_count * element, row_count, 1, 1};
  access.step = {1, static_cast<std::int64_t>(columns * element), 0, 0};
  return access;
}

BufferAccess Buffer::as_column() const {
  if (!present()) return {};
  const std::uint64_t element = isa::dtype_bytes(dtype);
  BufferAccess access;
  access.buffer = index;
  access.ndim = 2;
  access.size = {element, rows * columns, 1, 1};
  access.step = {1, static_cast<std::int64_t>(element), 0, 0};
  return access;
}

BufferAccess Buffer::broadcast(std::uint32_t partitions) const {
  if (!present()) return {};
  BufferAccess access;
  access.buffer = index;
  access.ndim = 2;
  access.size = {rows * columns * isa::dtype_bytes(dtype), partitions, 1, 1};
  return access;
}

}  // namespace neuron::builder
