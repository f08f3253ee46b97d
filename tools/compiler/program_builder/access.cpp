// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/access.h"

#include <algorithm>

#include "driver/isa/instruction.h"

namespace neuron::builder {

void Motions::add(Motion motion) {
  if (motion.bytes == 0) return;
  const auto end = list_.begin() + count_;
  const auto place =
      std::find_if(list_.begin(), end, [&](const Motion& m) { return m.index >= motion.index; });
  if (place != end && place->index == motion.index && place->program == motion.program) {
    place->bytes += motion.bytes;
    if (place->bytes == 0) remove(motion.index);
    return;
  }
  if (count_ == kMost) {
    fits_ = false;
    return;
  }
  std::copy_backward(place, end, end + 1);
  *place = motion;
  ++count_;
}

void Motions::remove(uint32_t index) {
  const auto end = list_.begin() + count_;
  const auto left =
      std::remove_if(list_.begin(), end, [&](const Motion& m) { return m.index == index; });
  std::fill(left, end, Motion());
  count_ = static_cast<uint32_t>(left - list_.begin());
}

uint64_t TileAccess::elements() const {
  uint64_t count = 1;
  for (uint32_t d = 0; d < ndim; ++d) count *= size[d];
  return count;
}

uint64_t TileAccess::first_byte() const {
  int64_t first = base;
  const int64_t element = isa::dtype_bytes(dtype);
  for (uint32_t d = 0; d < ndim; ++d) {
    if (step[d] < 0) first += (int64_t{size[d]} - 1) * step[d] * element;
  }
  return static_cast<uint64_t>(first);
}

uint64_t TileAccess::end_byte() const {
  int64_t last = base;
  const int64_t element = isa::dtype_bytes(dtype);
  if (offsets.present()) return base + uint64_t{reach} * isa::dtype_bytes(dtype);
  for (uint32_t d = 0; d < ndim; ++d) {
    if (step[d] > 0) last += (int64_t{size[d]} - 1) * step[d] * element;
  }
  return static_cast<uint64_t>(last + element);
}

TileAccess TileAccess::split(uint32_t outer) const {
  TileAccess part = *this;
  if (!present()) return part;
  if (ndim != 1 || outer == 0 || size[0] % outer != 0) {
    part.inside = false;
    return part;
  }
  part.ndim = 2;
  part.size = {size[0] / outer, outer, 0, 0};
  part.step = {step[0], static_cast<int32_t>(part.size[0]) * step[0], 0, 0};
  return part;
}

TileAccess TileAccess::repeated(uint32_t times) const {
  TileAccess part = *this;
  if (!present()) return part;
  if (ndim == 4 || times == 0) {
    part.inside = false;
    return part;
  }
  part.size[part.ndim] = times;
  part.step[part.ndim++] = 0;
  return part;
}

TileAccess TileAccess::stretched(uint32_t times) const {
  TileAccess part = *this;
  if (!present()) return part;
  if (ndim == 4 || times == 0) {
    part.inside = false;
    return part;
  }
  for (uint32_t d = part.ndim++; d > 0; --d) {
    part.size[d] = part.size[d - 1];
    part.step[d] = part.step[d - 1];
  }
  part.size[0] = times;
  part.step[0] = 0;
  return part;
}

TileAccess TileAccess::reordered(std::initializer_list<uint32_t> order) const {
  TileAccess part = *this;
  if (!present()) return part;
  uint32_t d = 0, seen = 0;
  for (uint32_t old : order) {
    if (d == ndim || old >= ndim || (seen >> old & 1) != 0) {
      part.inside = false;
      return part;
    }
    seen |= 1u << old;
    part.size[d] = size[old];
    part.step[d++] = step[old];
  }
  part.inside = inside && d == ndim;
  return part;
}

TileAccess TileAccess::indirect(const TileAccess& index, uint32_t count) const {
  TileAccess part = *this;
  if (!present() || !index.present()) return {};
  const auto dense = [](const TileAccess& a) {
    return a.ndim == 1 && (a.step[0] == 1 || a.size[0] == 1) && !a.offsets.present();
  };
  part.inside = inside && index.inside;
  part.offsets = {index.start,
                  index.parts,
                  index.base,
                  std::max(index.size[0], 1u),
                  index.dtype,
                  dense(*this) && dense(index) && index.space == NEURON_SPACE_SBUF &&
                      index.advance == 0 && index.motions.empty()};
  part.reach = size[0];
  part.ndim = 1;
  part.size = {count, 0, 0, 0};
  part.step = {1, 0, 0, 0};
  return part;
}

TileAccess TileAccess::advancing(int64_t elements) const {
  TileAccess part = *this;
  part.advance = elements * isa::dtype_bytes(dtype);
  return part;
}

TileAccess TileAccess::advancing(int64_t elements, Index index) const {
  TileAccess part = *this;
  part.motions.add({index.number, index.program, elements * isa::dtype_bytes(dtype)});
  return part;
}

TileAccess Tile::pattern(uint32_t first_row, uint32_t rows, uint32_t first_column,
                         std::initializer_list<uint32_t> sizes,
                         std::initializer_list<int32_t> steps) const {
  TileAccess part = at(first_row, rows, first_column, 1);
  if (!part.present()) return part;
  if (sizes.size() != steps.size() || sizes.size() == 0 || sizes.size() > 4) {
    part.inside = false;
    return part;
  }
  int64_t first = first_column, last = first_column;
  part.ndim = 0;
  for (uint32_t count : sizes) {
    const int32_t step = steps.begin()[part.ndim];
    part.size[part.ndim] = count;
    part.step[part.ndim++] = step;
    (step < 0 ? first : last) += (int64_t{count} - 1) * step;
    part.inside = part.inside && count >= 1;
  }
  part.inside = part.inside && first >= 0 && last < int64_t{columns};
  return part;
}

Tile Tile::as(uint8_t other) const {
  Tile view = *this;
  const uint32_t bytes = isa::dtype_bytes(other);
  if (!present() || bytes == 0) return {};
  view.dtype = other;
  view.columns = columns * isa::dtype_bytes(dtype) / bytes;
  return view;
}

TileAccess Tile::at(uint32_t first_row, uint32_t rows, uint32_t first_column,
                    uint32_t count) const {
  if (!present()) return {};
  TileAccess part;
  part.space = space;
  part.dtype = dtype;
  part.tile = tile;
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

BufferAccess Buffer::block(uint64_t first_row, uint64_t row_count, uint64_t first_column,
                           uint64_t column_count) const {
  if (!present()) return {};
  const uint64_t element = isa::dtype_bytes(dtype);
  BufferAccess access;
  access.buffer = index;
  access.dtype = dtype;
  access.offset = (first_row * columns + first_column) * element;
  access.ndim = 2;
  access.size = {column_count * element, row_count, 1, 1};
  access.step = {1, static_cast<int64_t>(columns * element), 0, 0};
  return access;
}

BufferAccess BufferAccess::advancing(int64_t distance) const {
  BufferAccess access = *this;
  access.advance = distance;
  return access;
}

BufferAccess BufferAccess::advancing(int64_t distance, Index index) const {
  BufferAccess access = *this;
  access.motions.add({index.number, index.program, distance});
  return access;
}

BufferAccess Buffer::rows_of_round(uint64_t first_row, uint64_t row_count, int64_t row_step) const {
  const auto row_bytes = static_cast<int64_t>(columns * isa::dtype_bytes(dtype));
  return block(first_row, row_count, 0, columns).advancing(row_step * row_bytes);
}

// Innermost dimensions that are contiguous become one run of bytes.
BufferAccess Buffer::pattern(uint64_t first, std::initializer_list<uint64_t> sizes,
                             std::initializer_list<int64_t> steps) const {
  if (!present() || sizes.size() != steps.size()) return {};
  const uint64_t element = isa::dtype_bytes(dtype);
  BufferAccess access;
  access.buffer = index;
  access.dtype = dtype;
  access.offset = first * element;
  access.size[0] = element;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const uint64_t count = sizes.begin()[d];
    const int64_t step = steps.begin()[d] * static_cast<int64_t>(element);
    if (access.ndim == 1 && step == static_cast<int64_t>(access.size[0])) {
      access.size[0] *= count;
    } else if (count != 1) {
      if (access.ndim == 4) return {};
      access.size[access.ndim] = count;
      access.step[access.ndim++] = step;
    }
  }
  return access;
}

BufferAccess Buffer::as_column() const {
  if (!present()) return {};
  const uint64_t element = isa::dtype_bytes(dtype);
  BufferAccess access;
  access.buffer = index;
  access.dtype = dtype;
  access.ndim = 2;
  access.size = {element, rows * columns, 1, 1};
  access.step = {1, static_cast<int64_t>(element), 0, 0};
  return access;
}

BufferAccess Buffer::broadcast(uint32_t partitions) const {
  if (!present()) return {};
  BufferAccess access;
  access.buffer = index;
  access.dtype = dtype;
  access.ndim = 2;
  access.size = {rows * columns * isa::dtype_bytes(dtype), partitions, 1, 1};
  return access;
}

}  // namespace neuron::builder
