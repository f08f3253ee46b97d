// SPDX-License-Identifier: Apache-2.0
// Walks the elements of an instruction in blocks that fit the scratch rows: several partitions at a
// time when rows are short, pieces of one partition when they are long.
//
// Callers: elementwise units. Where the destination overlaps a source in another pattern, blocks
// are single elements, because then an element must be read after the one before it was written.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_BLOCK_LOOP_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_BLOCK_LOOP_H

#include <algorithm>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/engines/unit_context.h"

namespace neuron::core {

// `rows` partitions from `part` on, elements [first, first + count) of each, packed row by row.
struct Block {
  unsigned part = 0;
  unsigned rows = 0;
  uint64_t first = 0;
  size_t count = 0;
  size_t size() const { return rows * count; }
};

// Elements of a block: three scratch rows of it stay in the first-level cache.
inline constexpr size_t kBlockElements = 4096;
static_assert(kBlockElements <= kPiece);
// Elements of one partition in a block: long runs for elementwise work; shorter ones of 16
// partitions where rows are summed, in a fixed order, side by side.
inline constexpr size_t kRun = 2048;
inline constexpr size_t kSummedRun = 256;

template <class Work>
void for_blocks(unsigned parts, uint64_t n, bool one_by_one, Work&& work, size_t run = kRun) {
  const size_t piece = one_by_one ? 1 : std::min<uint64_t>(n, parts == 1 ? kBlockElements : run);
  const unsigned rows =
      one_by_one ? 1 : static_cast<unsigned>(std::min<uint64_t>(parts, kBlockElements / piece));
  for (unsigned part = 0; part < parts; part += rows) {
    Block block{part, std::min(rows, parts - part), 0, 0};
    for (uint64_t first = 0; first < n; first += piece) {
      block.first = first;
      block.count = std::min<uint64_t>(piece, n - first);
      work(block);
    }
  }
}

// The block as packed fp32: memory itself if it is one contiguous fp32 row, else `scratch`.
inline const float* load_block(const OperandView& view, const Block& block, float* scratch) {
  if (block.rows == 1) return view.load_or_map(block.part, block.first, block.count, scratch);
  for (unsigned r = 0; r < block.rows; ++r) {
    view.load(block.part + r, block.first, block.count, scratch + r * block.count);
  }
  return scratch;
}

// The block's raw bits, packed.
inline void load_raw_block(const OperandView& view, const Block& block, std::byte* out) {
  for (unsigned r = 0; r < block.rows; ++r) {
    view.load_raw(block.part + r, block.first, block.count,
                  out + r * block.count * view.element_bytes());
  }
}

inline void store_raw_block(const OperandView& view, const Block& block, const std::byte* in) {
  for (unsigned r = 0; r < block.rows; ++r) {
    view.store_raw(block.part + r, block.first, block.count,
                   in + r * block.count * view.element_bytes());
  }
}

inline void look_for_nan(UnitContext& context, const float* values, size_t n) {
  if (!context.check_nan || context.saw_nan) return;
  context.saw_nan = std::any_of(values, values + n, [](float v) { return v != v; });
}

// The random words of stochastic rounding for element `first` on of the stream of one partition.
inline numerics::RandomStream rounding_stream(const UnitContext& context, const isa::Operand& dst,
                                              unsigned part, uint64_t first) {
  return {context.seed, context.engine << 8 | (dst.start + part), context.random_position + first};
}

// Packs what store_block would write, instead of writing it.
inline void narrow_block(UnitContext& context, const OperandView& view, const isa::Operand& dst,
                         const Block& block, const float* values, std::byte* out) {
  const numerics::NarrowMode mode = context.narrow_mode(dst);
  for (unsigned r = 0; r < block.rows; ++r) {
    numerics::RandomStream random = rounding_stream(context, dst, block.part + r, block.first);
    numerics::narrow(view.dtype(), values + r * block.count,
                     out + r * block.count * view.element_bytes(), 1, block.count, mode, &random);
  }
  look_for_nan(context, values, block.size());
}

inline void store_block(UnitContext& context, const OperandView& view, const isa::Operand& dst,
                        const Block& block, const float* values) {
  const numerics::NarrowMode mode = context.narrow_mode(dst);
  const bool random = mode.rounding == numerics::Rounding::kStochastic;
  if (view.dtype() == NEURON_DTYPE_F32 && view.contiguous() && !mode.saturate && !random) {
    // Rows of a few statistics are common, and take less than to find out how to write them.
    base::Abandonment::look();
    for (unsigned r = 0; r < block.rows; ++r) {
      auto* to = reinterpret_cast<float*>(view.row(block.part + r)) + block.first;
      std::copy_n(values + r * block.count, block.count, to);
    }
    return look_for_nan(context, values, block.size());
  }
  for (unsigned r = 0; r < block.rows; ++r) {
    const unsigned part = block.part + r;
    const float* row = values + r * block.count;
    if (random) {
      numerics::RandomStream stream = rounding_stream(context, dst, part, block.first);
      view.store(part, block.first, block.count, row, mode, &stream);
    } else {
      view.store(part, block.first, block.count, row, mode, nullptr);
    }
  }
  look_for_nan(context, values, block.size());
}

}  // namespace neuron::core

#endif
