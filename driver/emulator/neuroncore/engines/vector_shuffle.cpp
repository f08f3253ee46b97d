// SPDX-License-Identifier: Apache-2.0
// Instructions that move elements between the partitions of a quadrant: stream_shuffle and
// transpose32. Bits are moved unchanged.
#include <algorithm>
#include <cstring>

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/vector_families.h"

namespace neuron::core {
namespace {

constexpr unsigned kShuffled = NEURON_SHUFFLE_ROWS;

// The operand with all rows of the quadrants that it touches: a shuffle also reads rows beyond the
// instruction's partition count.
isa::Operand whole_quadrants(isa::Operand operand) {
  operand.parts = static_cast<uint8_t>((operand.parts + kShuffled - 1) / kShuffled * kShuffled);
  return operand;
}

}  // namespace

Fault stream_shuffle(UnitContext& context, const isa::Instruction& i) {
  for (const uint8_t row : i.shuffle) {
    if (row >= kShuffled && row != NEURON_SHUFFLE_KEEP) {
      return make_fault(NEURON_FAULT_ILLEGAL_FIELD, 0, row, NEURON_SHUFFLE_MASK);
    }
  }
  const OperandView source(context.memory, whole_quadrants(i.src0));
  const OperandView dst(context.memory, i.dst);
  const OperandView all_dst(context.memory, whole_quadrants(i.dst));
  const size_t bytes = dst.element_bytes();
  const size_t piece =
      all_dst.clobbers(source) ? 1 : std::min<uint64_t>(dst.elements(), kPiece / kShuffled);
  std::byte* rows = bytes_of(context.scratch.a.data());
  for (unsigned quadrant = 0; quadrant < dst.partitions(); quadrant += kShuffled) {
    const unsigned used = std::min(kShuffled, dst.partitions() - quadrant);
    for (uint64_t first = 0; first < dst.elements(); first += piece) {
      const size_t count = std::min<uint64_t>(piece, dst.elements() - first);
      // All rows are read before one is written.
      load_raw_block(source, {quadrant, kShuffled, first, count}, rows);
      for (unsigned r = 0; r < used; ++r) {
        if (i.shuffle[r] == NEURON_SHUFFLE_KEEP) continue;
        dst.store_raw(quadrant + r, first, count, rows + i.shuffle[r] * count * bytes);
      }
    }
  }
  return {};
}

Fault transpose32(UnitContext& context, const isa::Instruction& i) {
  const OperandView source(context.memory, i.src0);
  const OperandView dst(context.memory, i.dst);
  const size_t bytes = dst.element_bytes();
  const unsigned parts = source.partitions();
  const uint64_t n = source.elements();
  std::byte* block = bytes_of(context.scratch.a.data());
  std::byte* turned = bytes_of(context.scratch.b.data());
  for (unsigned quadrant = 0; quadrant < parts; quadrant += kShuffled) {
    const unsigned rows = std::min(kShuffled, parts - quadrant);
    for (uint64_t first = 0; first < n; first += kShuffled) {
      const auto columns = static_cast<unsigned>(std::min<uint64_t>(kShuffled, n - first));
      if (quadrant + columns > dst.partitions() || first + rows > dst.elements()) {
        return make_fault(NEURON_FAULT_OPERAND_SHAPE, 0, dst.partitions(), NEURON_INST_DST + 3);
      }
      load_raw_block(source, {quadrant, rows, first, columns}, block);
      for (unsigned c = 0; c < columns; ++c) {
        for (unsigned r = 0; r < rows; ++r) {
          std::memcpy(turned + (c * rows + r) * bytes, block + (r * columns + c) * bytes, bytes);
        }
      }
      store_raw_block(dst, {quadrant, columns, first, rows}, turned);
    }
  }
  return {};
}

}  // namespace neuron::core
