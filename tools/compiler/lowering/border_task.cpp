// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs, whose tensors have the types of the model: 64-bit whole numbers lose their
// upper halves on the way in and get them back on the way out, small types are widened.
#include <algorithm>

#include "driver/isa/instruction.h"
#include "tools/compiler/lowering/lanes.h"
#include "tools/compiler/lowering/tasks.h"

namespace neuron::lowering {
namespace {

using graph::Type;

// The lower or upper halves of 64-bit numbers.
BufferAccess halves(const Buffer& buffer, uint64_t first, uint64_t elements, bool upper) {
  BufferAccess access;
  access.buffer = buffer.index;
  access.dtype = NEURON_DTYPE_I32;
  access.offset = first * 8 + (upper ? 4 : 0);
  access.ndim = 2;
  access.size = {4, elements, 1, 1};
  access.step = {1, 8, 0, 0};
  return access;
}

// Copies the lower halves to or from 32-bit numbers, in transfers of as many runs as one may have.
void copy_lower(Workspace& work, const Buffer& wide, const Buffer& place, uint64_t elements,
                bool out) {
  for (uint64_t first = 0; first < elements; first += Workspace::kMostRuns) {
    const uint64_t count = std::min(Workspace::kMostRuns, elements - first);
    const BufferAccess half = halves(wide, first, count, false);
    const BufferAccess whole = Workspace::rows(place, first, 1, static_cast<uint32_t>(count));
    out ? work.copy(half, whole) : work.copy(whole, half);
  }
}

std::vector<uint64_t> sizes_of(const graph::Shape& shape) {
  std::vector<uint64_t> sizes(shape.begin(), shape.end());
  if (sizes.empty()) sizes.push_back(1);
  return sizes;
}

// Elements of a border buffer of any size.
BufferAccess small_rows(const Buffer& buffer, uint64_t first, uint32_t parts, uint32_t columns) {
  const uint64_t element = isa::dtype_bytes(buffer.dtype);
  BufferAccess access = Workspace::rows(buffer, first, parts, columns);
  access.offset = first * element;
  access.size[0] = columns * element;
  access.step[1] = static_cast<int64_t>(columns * element);
  return access;
}

bool is_wide(Type type) { return type == Type::kI64 || type == Type::kU64; }

}  // namespace

uint8_t border_dtype(Type type) {
  switch (type) {
    case Type::kF16:
      return NEURON_DTYPE_F16;
    case Type::kBf16:
      return NEURON_DTYPE_BF16;
    case Type::kI8:
      return NEURON_DTYPE_I8;
    case Type::kI16:
      return NEURON_DTYPE_I16;
    case Type::kI32:
      return NEURON_DTYPE_I32;
    case Type::kI64:
      return NEURON_DTYPE_I64;
    case Type::kU16:
      return NEURON_DTYPE_U16;
    case Type::kU32:
      return NEURON_DTYPE_U32;
    case Type::kU64:
      return NEURON_DTYPE_U64;
    case Type::kU8:
    case Type::kBool:
      return NEURON_DTYPE_U8;
    default:
      return NEURON_DTYPE_F32;
  }
}

void emit_input(Workspace& work, Value value) {
  const Node& node = work.node(value);
  const auto elements = static_cast<uint64_t>(graph::elements_of(node.shape));
  const uint8_t dtype = border_dtype(node.type);
  const uint8_t inner = Workspace::dtype_of(node.type);
  work.program.section(node.name);
  Buffer buffer = work.program.input(node.name, dtype, sizes_of(node.shape));
  if (isa::dtype_bytes(dtype) == 4) {
    buffer.dtype = inner;
    return work.set_place(value, buffer);
  }
  const Buffer place = work.make_place(value);
  if (is_wide(node.type)) return copy_lower(work, buffer, place, elements, false);
  Workspace::for_pieces(elements, [&](uint64_t first, uint32_t parts, uint32_t columns) {
    Lanes lanes(work, parts, columns);
    const Register narrow = work.lend();
    const TileAccess small = narrow->as(dtype).at(0, parts, 0, columns);
    work.load(small, small_rows(buffer, first, parts, columns));
    const Lane wide = lanes.fresh(inner);
    work.program.tensor_copy(Engine::kDve, lanes.access(wide), small);
    lanes.store(place, first, wide);
  });
}

void declare_output(Workspace& work, const graph::Output& output, Value value) {
  const Node& node = work.node(output.value);
  const uint8_t dtype = border_dtype(node.type);
  Buffer buffer =
      work.program.output(output.name, dtype, sizes_of(node.shape),
                          output.donor != graph::kNone ? work.node(output.donor).name : "");
  work.declare(output.name, buffer);
  if (value < 0 || isa::dtype_bytes(dtype) != 4) return;
  buffer.dtype = Workspace::dtype_of(node.type);
  work.set_destination(value, buffer);
}

void emit_output(Workspace& work, const graph::Output& output) {
  const Node& node = work.node(output.value);
  const auto elements = static_cast<uint64_t>(graph::elements_of(node.shape));
  const uint8_t dtype = border_dtype(node.type);
  work.program.section(output.name);
  const Buffer place = work.place(output.value);
  const Buffer buffer = work.declared(output.name);
  if (buffer.index == place.index) return;
  if (isa::dtype_bytes(dtype) == 4) {
    const auto all = static_cast<uint32_t>(elements);
    return work.copy(Workspace::rows(buffer, 0, 1, all), Workspace::rows(place, 0, 1, all));
  }
  if (is_wide(node.type)) copy_lower(work, buffer, place, elements, true);
  Workspace::for_pieces(elements, [&](uint64_t first, uint32_t parts, uint32_t columns) {
    Lanes lanes(work, parts, columns);
    const Lane wide = lanes.load(place, first, Workspace::dtype_of(node.type));
    if (is_wide(node.type)) {
      const Lane upper = node.type == Type::kU64 ? lanes.whole_number(0)
                                                 : lanes.bits(NEURON_ALU_SHR_ARITH, wide, 31);
      BufferAccess to = halves(buffer, first, columns, true);
      to.ndim = 3;
      to.size[2] = parts;
      to.step[2] = int64_t{columns} * 8;
      return work.store(to, lanes.access(upper));
    }
    const Register narrow = work.lend();
    const TileAccess small = narrow->as(dtype).at(0, parts, 0, columns);
    work.program.tensor_copy(Engine::kDve, small, lanes.access(wide));
    work.store(small_rows(buffer, first, parts, columns), small);
  });
}

}  // namespace neuron::lowering
