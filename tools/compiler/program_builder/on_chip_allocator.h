// SPDX-License-Identifier: Apache-2.0
//
// Places tiles in SBUF and PSUM. Partitions are handed out in quadrants of 32, because a tile may
// only start where its partition count allows (rule R1): 1-32 partitions in any quadrant, 33-64 in
// the first or third, more in the first. A PSUM tile of up to 2 KiB stays in one bank; a larger
// one starts at a bank. First fit, so that equal programs are placed equally.
// Callers: Program. Thread-safe: no. Fails with a sentence: asked, free, largest free block.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_ON_CHIP_ALLOCATOR_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_ON_CHIP_ALLOCATOR_H

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "hw/isa.h"
#include "runtime/base/error.h"

namespace neuron::builder {

class OnChipAllocator {
 public:
  struct Place {
    uint32_t start = 0;  // First partition
    uint32_t base = 0;   // Byte in the partition
  };

  OnChipAllocator(uint8_t space, uint32_t partition_bytes)
      : space_(space), partition_bytes_(partition_bytes) {}

  runtime::Result<Place> allocate(const std::string& name, uint32_t parts, uint64_t bytes);
  void release(uint32_t start, uint32_t parts, uint32_t base);
  // Keeps tiles from being placed here. What is reserved may overlap, and stays reserved. Tiles
  // that have their place already must not lie here.
  runtime::Result<void> reserve(const std::string& name, uint32_t start, uint32_t base,
                                uint32_t parts, uint64_t bytes);
  bool has_room(uint32_t parts, uint64_t bytes) const;

  // Bytes of one partition that no tile holds, in the fullest of the quadrants that a tile of
  // `parts` partitions at 0 needs; and the largest gap common to them.
  uint32_t free_bytes(uint32_t parts) const;
  uint32_t partition_bytes() const { return partition_bytes_; }
  uint32_t largest_gap(uint32_t parts) const;

 private:
  static constexpr unsigned kQuadrants = 4;
  // Used blocks of one quadrant: base to end.
  using Used = std::map<uint32_t, uint32_t>;

  // The lowest base where `bytes` are free in all quadrants of [first, first + count).
  bool find(unsigned first, unsigned count, uint32_t bytes, uint32_t& base) const;
  uint32_t aligned(uint32_t base, uint32_t bytes) const;

  uint8_t space_;
  uint32_t partition_bytes_;
  std::array<Used, kQuadrants> used_;
  std::array<Used, kQuadrants> reserved_;  // Disjoint: what touches is merged
};

}  // namespace neuron::builder

#endif
