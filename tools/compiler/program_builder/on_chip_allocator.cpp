// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/on_chip_allocator.h"

#include <algorithm>

namespace neuron::builder {

using runtime::fail;
using runtime::Result;

namespace {

constexpr uint32_t kQuadrantPartitions = 32;
constexpr uint32_t kAlignment = 64;  // Longest element of the memory ports

unsigned quadrants(uint32_t parts) {
  if (parts > 64) return 4;
  return (parts + kQuadrantPartitions - 1) / kQuadrantPartitions;
}

}  // namespace

uint32_t OnChipAllocator::aligned(uint32_t base, uint32_t bytes) const {
  base = (base + kAlignment - 1) / kAlignment * kAlignment;
  if (space_ != NEURON_SPACE_PSUM) return base;
  const uint32_t into_bank = base % NEURON_PSUM_BANK_BYTES;
  if (into_bank != 0 && into_bank + bytes > NEURON_PSUM_BANK_BYTES) {
    base += NEURON_PSUM_BANK_BYTES - into_bank;
  }
  return base;
}

bool OnChipAllocator::find(unsigned first, unsigned count, uint32_t bytes, uint32_t& base) const {
  base = 0;
  for (;;) {  // bounded: each round begins behind a further block, or ends
    base = aligned(base, bytes);
    if (base > partition_bytes_ || bytes > partition_bytes_ - base) return false;
    uint32_t blocked = 0;
    for (unsigned q = first; q < first + count; ++q) {
      // The last block that begins before our end; if it ends behind our start, it is in the way.
      auto next = used_[q].lower_bound(base + bytes);
      if (next != used_[q].begin() && std::prev(next)->second > base) {
        blocked = std::max(blocked, std::prev(next)->second);
      }
    }
    if (blocked == 0) return true;
    base = blocked;
  }
}

Result<OnChipAllocator::Place> OnChipAllocator::allocate(const std::string& name, uint32_t parts,
                                                         uint64_t bytes) {
  const char* memory = space_ == NEURON_SPACE_PSUM ? "PSUM" : "SBUF";
  if (parts < 1 || parts > NEURON_PARTITIONS || bytes == 0) {
    return fail(NRT_INVALID,
                "{} tile \"{}\": {} partitions of {} bytes; expected 1 to 128 "
                "partitions of at least one byte",
                memory, name, parts, bytes);
  }
  const unsigned count = quadrants(parts);
  if (bytes <= partition_bytes_) {
    const auto size = static_cast<uint32_t>(bytes);
    for (unsigned first = 0; first + count <= kQuadrants; first += count) {
      uint32_t base = 0;
      if (!find(first, count, size, base)) continue;
      for (unsigned q = first; q < first + count; ++q) used_[q][base] = base + size;
      return Place{first * kQuadrantPartitions, base};
    }
  }
  return fail(NRT_RESOURCE,
              "{} tile \"{}\": asked for {} bytes in each of {} partitions, free are {} of {}, the "
              "largest free block has {}; use smaller tiles, or release some before",
              memory, name, bytes, parts, free_bytes(parts), partition_bytes_, largest_gap(parts));
}

void OnChipAllocator::release(uint32_t start, uint32_t parts, uint32_t base) {
  const unsigned first = start / kQuadrantPartitions;
  for (unsigned q = first; q < first + quadrants(parts); ++q) used_[q].erase(base);
}

uint32_t OnChipAllocator::free_bytes(uint32_t parts) const {
  uint32_t least = partition_bytes_;
  for (unsigned q = 0; q < quadrants(parts); ++q) {
    uint32_t used = 0;
    for (const auto& [base, end] : used_[q]) used += end - base;
    least = std::min(least, partition_bytes_ - used);
  }
  return least;
}

uint32_t OnChipAllocator::largest_gap(uint32_t parts) const {
  // Blocks of all quadrants in one order; a gap between them is free in every quadrant.
  Used all;
  for (unsigned q = 0; q < quadrants(parts); ++q) {
    for (const auto& [base, end] : used_[q]) all[base] = std::max(all[base], end);
  }
  uint32_t largest = 0;
  uint32_t reached = 0;
  for (const auto& [base, end] : all) {
    if (base > reached) largest = std::max(largest, base - reached);
    reached = std::max(reached, end);
  }
  return std::max(largest, partition_bytes_ - reached);
}

}  // namespace neuron::builder
