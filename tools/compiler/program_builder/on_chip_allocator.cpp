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

// The end of the last block that lies in [base, end); 0 if none does.
uint32_t blocker(const std::map<uint32_t, uint32_t>& blocks, uint32_t base, uint32_t end) {
  // The last block that begins before our end; if it ends behind our start, it is in the way.
  const auto next = blocks.lower_bound(end);
  if (next == blocks.begin() || std::prev(next)->second <= base) return 0;
  return std::prev(next)->second;
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
      blocked = std::max({blocked, blocker(used_[q], base, base + bytes),
                          blocker(reserved_[q], base, base + bytes)});
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

bool OnChipAllocator::has_room(uint32_t parts, uint64_t bytes) const {
  const unsigned count = quadrants(parts);
  if (bytes > partition_bytes_) return false;
  for (unsigned first = 0; first + count <= kQuadrants; first += count) {
    uint32_t base = 0;
    if (find(first, count, static_cast<uint32_t>(bytes), base)) return true;
  }
  return false;
}

Result<void> OnChipAllocator::reserve(const std::string& name, uint32_t start, uint32_t base,
                                      uint32_t parts, uint64_t bytes) {
  if (parts < 1 || start >= NEURON_PARTITIONS || parts > NEURON_PARTITIONS - start || bytes == 0 ||
      base > partition_bytes_ || bytes > partition_bytes_ - base) {
    return fail(
        NRT_INVALID,
        "{} tile \"{}\" at partition {}, byte {}: {} partitions of {} bytes do not fit into "
        "128 partitions of {}",
        space_ == NEURON_SPACE_PSUM ? "PSUM" : "SBUF", name, start, base, parts, bytes,
        partition_bytes_);
  }
  const unsigned last = (start + parts - 1) / kQuadrantPartitions;
  for (unsigned q = start / kQuadrantPartitions; q <= last; ++q) {
    uint32_t from = base, to = base + static_cast<uint32_t>(bytes);
    auto next = reserved_[q].upper_bound(to);
    while (next != reserved_[q].begin() && std::prev(next)->second >= from) {
      --next;
      from = std::min(from, next->first);
      to = std::max(to, next->second);
      next = reserved_[q].erase(next);
    }
    reserved_[q][from] = to;
  }
  return {};
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
