// SPDX-License-Identifier: Apache-2.0
// max8, find_index8 and match_replace8: the steps of a top-k along the free dimension.
#include <algorithm>
#include <array>
#include <cstring>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"
#include "driver/emulator/numerics/search.h"

namespace neuron::core {
namespace {

using numerics::kSearched;

// Walks the pieces of one partition as fp32.
template <class Work>
void for_pieces(UnitContext& context, const OperandView& view, unsigned part, Work&& work) {
  for (uint64_t first = 0; first < view.elements(); first += kPiece) {
    const size_t count = std::min<uint64_t>(kPiece, view.elements() - first);
    if (!work(view.load_or_map(part, first, count, context.scratch.a.data()), first, count)) return;
  }
}

numerics::FirstPlaces search(UnitContext& context, const OperandView& view, unsigned part,
                             const float* values, bool last_first) {
  numerics::FirstPlaces places(values, last_first);
  for_pieces(context, view, part, [&](const float* x, uint64_t first, size_t n) {
    places.add(x, first, n);
    return !places.complete();
  });
  return places;
}

// Packs indices of 16 or 32 bits; an index that is missing or does not fit becomes all ones.
void pack_indices(const std::array<uint32_t, kSearched>& places, unsigned bytes, std::byte* out) {
  for (size_t v = 0; v < kSearched; ++v) {
    const uint32_t index = bytes == 2 ? std::min(places[v], 0xFFFFu) : places[v];
    std::memcpy(out + v * bytes, &index, bytes);
  }
}

}  // namespace

Fault max8(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  float* results = context.scratch.b.data();
  for (unsigned p = 0; p < source.partitions(); ++p) {
    numerics::LargestEight largest;
    for_pieces(context, source, p, [&](const float* x, uint64_t, size_t n) {
      largest.add(x, n);
      return true;
    });
    const auto values = largest.values();
    std::copy(values.begin(), values.end(), results + kSearched * p);
  }
  store_block(context, dst, i.dst, {0, dst.partitions(), 0, kSearched}, results);
  return {};
}

Fault find_index8(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView values(context.memory, i.src1);
  const OperandView dst(context.memory, i.dst);
  std::byte* results = bytes_of(context.scratch.b.data());
  const size_t row = kSearched * dst.element_bytes();
  for (unsigned p = 0; p < source.partitions(); ++p) {
    float wanted[kSearched];
    values.load(p, 0, kSearched, wanted);
    pack_indices(search(context, source, p, wanted, false).places(), dst.element_bytes(),
                 results + p * row);
  }
  store_raw_block(dst, {0, dst.partitions(), 0, kSearched}, results);
  return {};
}

Fault match_replace8(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const bool raw = i.src0.dtype == i.dst.dtype && i.src0.bias == i.dst.bias;
  const bool one_by_one = dst.clobbers(source);
  Scratch& s = context.scratch;
  const isa::Scalar immediate{i.vector.imm, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_F32, 0, 0};
  const float replacement = immediate_value(immediate);
  for (unsigned p = 0; p < dst.partitions(); ++p) {
    float wanted[kSearched];
    numerics::widen(i.scalar0.dtype,
                    context.memory.row(i.scalar0.space, i.scalar0.start + p) + i.scalar0.value, 1,
                    wanted, kSearched);
    const auto places = search(context, source, p, wanted, true).places();
    // The places refer to the row before any element of it was written.
    for_blocks(1, dst.elements(), one_by_one, [&](Block block) {
      block.part = p;
      std::byte* out = bytes_of(s.c.data());
      if (raw) {
        load_raw_block(source, block, out);
      } else {
        narrow_block(context, dst, i.dst, block, load_block(source, block, s.a.data()), out);
      }
      for (const uint32_t place : places) {
        if (place < block.first || place - block.first >= block.count) continue;
        const uint64_t at = place - block.first;
        narrow_block(context, dst, i.dst, {p, 1, place, 1}, &replacement,
                     out + at * dst.element_bytes());
      }
      store_raw_block(dst, block, out);
    });
    if (i.scalar1.present()) {
      const unsigned bytes = isa::dtype_bytes(i.scalar1.dtype);
      pack_indices(places, bytes,
                   context.memory.row(i.scalar1.space, i.scalar1.start + p) + i.scalar1.value);
    }
  }
  return {};
}

}  // namespace neuron::core
