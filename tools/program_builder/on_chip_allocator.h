// SPDX-License-Identifier: Apache-2.0
//
// Places tiles in SBUF and PSUM. Partitions are handed out in quadrants of 32, because a tile may
// only start where its partition count allows (rule R1): 1-32 partitions in any quadrant, 33-64 in
// the first or third, more in the first. A PSUM tile of up to 2 KiB stays in one bank; a larger
// one starts at a bank. First fit, so that equal programs are placed equally.
// Callers: Program. Thread-safe: no. Fails with a sentence: asked, free, largest free block.
#ifndef TOOLS_PROGRAM_BUILDER_ON_CHIP_ALLOCATOR_H_
#define TOOLS_PROGRAM_BUILDER_ON_CHIP_ALLOCATOR_H_

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
    std::uint32_t start = 0;  // First partition
    std::uint32_t base = 0;   // Byte in the partition
  };

  OnChipAllocator(std::uint8_t space, std::uint32_t partition_bytes)
      : space_(space), partition_bytes_(partition_bytes) {}

  runtime::Result<Place> allocate(const std::string& name, std::uint32_t parts,
                                  std::uint64_t bytes);
  void release(std::uint32_t start, std::uint32_t parts, std::uint32_t base);

  // Bytes of one partition that no tile holds, in the fullest of the quadrants that a tile of
  // `parts` partitions at 0 needs; and the largest gap common to them.
  std::uint32_t free_bytes(std::uint32_t parts) const;
  std::uint32_t largest_gap(std::uint32_t parts) const;

 private:
  static constexpr unsigned kQuadrants = 4;
  // Used blocks of one quadrant: base to end.
  using Used = std::map<std::uint32_t, std::uint32_t>;

  // The lowest base where `bytes` are free in all quadrants of [first, first + count).
  bool find(unsigned first, unsigned count, std::uint32_t bytes, std::uint32_t& base) const;
  std::uint32_t aligned(std::uint32_t base, std::uint32_t bytes) const;

  std::uint8_t space_;
  std::uint32_t partition_bytes_;
  std::array<Used, kQuadrants> used_;
};

}  // namespace neuron::builder

#endif  // TOOLS_PROGRAM_BUILDER_ON_CHIP_ALLOCATOR_H_
