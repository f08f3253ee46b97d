// SPDX-License-Identifier: Apache-2.0
// topk: the K largest of n bf16 numbers that lie across 16 partitions, ascending, with their
// places.
//
// A group of 16 partitions is one sequence ("snake"): number j lies in partition j mod 16 of the
// group, element j / 16 of its stream, as in local_gather; values and places are written the same
// way, and what K leaves of the last column stays as it was. NaN is above everything, -0 below +0;
// of equal numbers the one that comes first is the larger.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "driver/base/abandonment.h"
#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/gpsimd_engine.h"
#include "driver/emulator/neuroncore/engines/vector_engine.h"

namespace neuron::core {
namespace {

// Ascending with the number.
uint16_t order_of(uint16_t bits) {
  if ((bits & 0x7FFF) > 0x7F80) return 0xFFFF;
  return (bits & 0x8000) != 0 ? static_cast<uint16_t>(~bits) : static_cast<uint16_t>(bits | 0x8000);
}

}  // namespace

Fault topk(UnitContext& context, const isa::Instruction& i) {
  const OperandView values(context.memory, i.dst);
  const OperandView source(context.memory, i.src0);
  const OperandView places(context.memory, i.src1);
  const uint32_t n = i.vector.imm;
  const uint32_t k = i.pool.count;
  std::vector<uint16_t> column(source.elements());
  std::vector<uint16_t> numbers(n);
  std::vector<uint32_t> order(n);
  uint32_t steps = 0;
  for (unsigned group = 0; group < values.partitions(); group += kGpsimdCorePartitions) {
    for (unsigned p = 0; p < kGpsimdCorePartitions; ++p) {
      source.load_raw(group + p, 0, column.size(), reinterpret_cast<std::byte*>(column.data()));
      for (uint32_t j = p; j < n; j += kGpsimdCorePartitions) {
        numbers[j] = column[j / kGpsimdCorePartitions];
      }
    }
    std::iota(order.begin(), order.end(), 0u);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](uint32_t a, uint32_t b) {
      base::Abandonment::look_now_and_then(steps);
      const uint16_t x = order_of(numbers[a]);
      const uint16_t y = order_of(numbers[b]);
      return x != y ? x > y : a < b;
    });
    for (uint32_t j = 0; j < k; ++j) {
      const uint32_t place = order[k - 1 - j];
      const unsigned part = group + j % kGpsimdCorePartitions;
      const uint64_t at = j / kGpsimdCorePartitions;
      values.store_raw(part, at, 1, reinterpret_cast<const std::byte*>(&numbers[place]));
      std::byte bytes[4];
      std::memcpy(bytes, &place, sizeof bytes);  // little endian: the low bytes are the u16
      places.store_raw(part, at, 1, bytes);
    }
  }
  clear_pe_marks(context, i.dst);
  clear_pe_marks(context, i.src1);
  return {};
}

}  // namespace neuron::core
