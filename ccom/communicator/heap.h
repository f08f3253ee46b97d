// SPDX-License-Identifier: Apache-2.0
// Blocks of a range of addresses: first fit, whole pages.
//
// Callers: ccom_mem_alloc and ccom_mem_free, by the communicator's thread. Thread-safe: no. Owns:
// the bookkeeping, not the memory. Fails: CCOM_RESOURCE with the free size, CCOM_INVALID for an
// offset that it did not allocate.
#ifndef CCOM_COMMUNICATOR_HEAP_H
#define CCOM_COMMUNICATOR_HEAP_H

#include <cstddef>
#include <cstdint>
#include <map>

#include "ccom/base/error.h"

namespace neuron::ccom {

class Heap {
 public:
  static constexpr uint64_t kPage = 4096;

  explicit Heap(uint64_t bytes);

  // Returns the offset of a block of at least one page.
  Result<uint64_t> allocate(uint64_t bytes);
  // Returns the size of the block in bytes.
  Result<uint64_t> release(uint64_t offset);

  // Frees the block but never gives it again: it counts as used.
  Result<void> retire(uint64_t offset);

  // Whether the bytes lie in one allocated block.
  bool contains(uint64_t offset, uint64_t bytes) const;

  uint64_t used() const { return used_; }
  uint64_t largest_free() const;

 private:
  static Error no_block(uint64_t offset);

  uint64_t bytes_;
  uint64_t used_ = 0;
  std::map<uint64_t, uint64_t> free_;       // offset, size; no two are adjacent
  std::map<uint64_t, uint64_t> allocated_;  // offset, size
};

}  // namespace neuron::ccom

#endif
