// SPDX-License-Identifier: Apache-2.0
// SBUF and PSUM of one core.
//
// Each partition is one row; rows lie in host memory one cache line further apart than they are
// long, because a power-of-two distance would put the same column of all 128 rows into one cache
// set. Reset fills both with a pattern without touching the pages: they are private mappings of one
// block of the pattern. PSUM also knows, per 4-byte cell, whether the PE wrote it last (strict
// mode). A third memory, which no program sees, holds gathered elements of indirect operands; it is
// mapped when the first of them executes.
// Callers: engines, DMA and bus of the core. Thread-safe as memory is; the PE marks belong to the
// group's runner. Throws std::bad_alloc from the constructor and make_gathered only.
#ifndef DRIVER_EMULATOR_NEURONCORE_SEQUENCER_CORE_MEMORY_H
#define DRIVER_EMULATOR_NEURONCORE_SEQUENCER_CORE_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "hw/address_map.h"
#include "hw/isa.h"

namespace neuron::core {

class CoreMemory {
 public:
  // The size of the largest generation. A constant row distance costs smaller generations only
  // address space.
  static constexpr size_t kMaxSbufBytes = NEURON_V4_SBUF_PARTITION_BYTES;
  static constexpr size_t kPsumBytes = NEURON_PSUM_PARTITION_BYTES;
  static constexpr size_t kSbufStride = kMaxSbufBytes + 64;
  static constexpr size_t kPsumStride = kPsumBytes + 64;
  static constexpr uint32_t kDefaultFill = 0xFFFFFFFF;
  // The space of gathered elements: each partition has room for the elements of three operands.
  static constexpr unsigned kGatheredSpace = 3;
  static constexpr size_t kGatheredBytes = (size_t{1} << 18) + 64;
  static constexpr size_t kGatheredStride = 3 * kGatheredBytes;

  // `sbuf_bytes` of each partition, at most kMaxSbufBytes.
  explicit CoreMemory(size_t sbuf_bytes = NEURON_V2_SBUF_PARTITION_BYTES);
  ~CoreMemory();
  CoreMemory(const CoreMemory&) = delete;
  CoreMemory& operator=(const CoreMemory&) = delete;

  std::byte* sbuf(unsigned partition) { return base_ + partition * kSbufStride; }
  std::byte* psum(unsigned partition) { return psum_ + partition * kPsumStride; }
  // Row of a partition in NEURON_SPACE_SBUF, NEURON_SPACE_PSUM or kGatheredSpace, and the distance
  // of rows.
  std::byte* row(unsigned space, unsigned partition) {
    if (space == kGatheredSpace) return gathered_ + partition * kGatheredStride;
    return space == NEURON_SPACE_PSUM ? psum(partition) : sbuf(partition);
  }
  size_t sbuf_bytes() const { return sbuf_bytes_; }
  static constexpr size_t stride(unsigned space) {
    if (space == kGatheredSpace) return kGatheredStride;
    return space == NEURON_SPACE_PSUM ? kPsumStride : kSbufStride;
  }
  // The bytes of a partition of SBUF or PSUM that a program may use.
  size_t partition_bytes(unsigned space) const {
    return space == NEURON_SPACE_PSUM ? kPsumBytes : sbuf_bytes_;
  }
  // Maps the memory of gathered elements unless it is there. Throws std::bad_alloc.
  void make_gathered();
  // SBUF window offset (hw/address_map.h) to memory; null when [offset, offset + length) leaves one
  // partition's backed bytes. The same for PSUM.
  std::byte* sbuf_at(uint64_t offset, size_t length);
  std::byte* psum_at(uint64_t offset, size_t length);

  void fill(uint32_t pattern);

  // PE marks of the PSUM cells that hold bytes [offset, offset + bytes) of a partition.
  void mark_pe(unsigned partition, size_t offset, size_t bytes, bool written);
  bool pe_wrote(unsigned partition, size_t offset, size_t bytes) const;

 private:
  static constexpr size_t kCells = kPsumBytes / 4;
  static constexpr size_t kMarkWords = kCells / 64;

  const size_t sbuf_bytes_;
  std::byte* base_ = nullptr;  // the mapping: SBUF rows, then PSUM rows
  std::byte* psum_ = nullptr;
  std::byte* gathered_ = nullptr;
  size_t bytes_ = 0;
  bool default_fill_ = true;
  std::unique_ptr<uint64_t[]> marks_;  // kMarkWords per partition
};

}  // namespace neuron::core

#endif
