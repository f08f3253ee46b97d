// SPDX-License-Identifier: Apache-2.0
// copy_predicated: elements move where an integer mask says so, the others stay as they are.
#include <algorithm>
#include <cstring>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"

namespace neuron::core {
namespace {

// Loads the source as bits of the destination's type: unchanged if the types are equal, else
// converted.
void load_source(UnitContext& context, const isa::Instruction& i, const OperandView* source,
                 const OperandView& dst, const Block& block, std::byte* out) {
  if (source != nullptr) {
    if (i.src0.dtype == i.dst.dtype && i.src0.bias == i.dst.bias) {
      return load_raw_block(*source, block, out);
    }
    narrow_block(context, dst, i.dst, block, load_block(*source, block, context.scratch.d.data()),
                 out);
    return;
  }
  const size_t bytes = dst.element_bytes();
  if (i.scalar0.kind == NEURON_SCALAR_POINTER && i.scalar0.dtype == i.dst.dtype &&
      i.dst.bias == 0) {
    for (unsigned r = 0; r < block.rows; ++r) {
      const std::byte* value =
          context.memory.row(i.scalar0.space, i.scalar0.start + block.part + r) + i.scalar0.value;
      for (size_t e = 0; e < block.count; ++e) {
        std::memcpy(out + (r * block.count + e) * bytes, value, bytes);
      }
    }
    return;
  }
  float* values = context.scratch.d.data();
  expand_scalar(context, i.scalar0, block.part, block.rows, block.count, values);
  narrow_block(context, dst, i.dst, block, values, out);
}

// Copies from `from` to `to` where the mask is not zero (inverted: where it is).
template <class Mask, class Value>
void blend(const std::byte* mask, bool invert, const std::byte* from, std::byte* to, size_t n) {
  const auto* masks = reinterpret_cast<const Mask*>(mask);
  const auto* values = reinterpret_cast<const Value*>(from);
  auto* out = reinterpret_cast<Value*>(to);
  for (size_t e = 0; e < n; ++e) out[e] = (masks[e] != 0) != invert ? values[e] : out[e];
}

template <class Mask>
void blend_any(const std::byte* mask, bool invert, const std::byte* from, std::byte* to,
               unsigned bytes, size_t n) {
  if (bytes == 1) blend<Mask, uint8_t>(mask, invert, from, to, n);
  if (bytes == 2) blend<Mask, uint16_t>(mask, invert, from, to, n);
  if (bytes == 4) blend<Mask, uint32_t>(mask, invert, from, to, n);
}

}  // namespace

Fault copy_predicated(UnitContext& context, const isa::Instruction& i) {
  const OperandView predicate(context.memory, i.src1);
  const OperandView dst(context.memory, i.dst);
  const bool has_source = i.src0.present();
  const OperandView source(context.memory, has_source ? i.src0 : i.dst);
  // A destination that visits an address twice keeps the last element that was copied, not the last
  // of the stream.
  const bool one_by_one =
      dst.clobbers(dst) || dst.clobbers(predicate) || (has_source && dst.clobbers(source));
  const unsigned bytes = dst.element_bytes();
  Scratch& s = context.scratch;
  for_blocks(dst.partitions(), dst.elements(), one_by_one, [&](const Block& block) {
    std::byte* from = bytes_of(s.a.data());
    std::byte* mask = bytes_of(s.b.data());
    std::byte* to = bytes_of(s.c.data());
    load_source(context, i, has_source ? &source : nullptr, dst, block, from);
    load_raw_block(predicate, block, mask);
    load_raw_block(dst, block, to);
    switch (predicate.element_bytes()) {
      case 1:
        blend_any<uint8_t>(mask, i.vector.invert, from, to, bytes, block.size());
        break;
      case 2:
        blend_any<uint16_t>(mask, i.vector.invert, from, to, bytes, block.size());
        break;
      default:
        blend_any<uint32_t>(mask, i.vector.invert, from, to, bytes, block.size());
        break;
    }
    store_raw_block(dst, block, to);
  });
  return {};
}

}  // namespace neuron::core
