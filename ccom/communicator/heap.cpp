// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/heap.h"

#include <algorithm>

namespace neuron::ccom {

Heap::Heap(uint64_t bytes) : bytes_(bytes / kPage * kPage) {
  if (bytes_ != 0) {
    free_[0] = bytes_;
  }
}

uint64_t Heap::largest_free() const {
  uint64_t largest = 0;
  for (const auto& [offset, size] : free_) {
    largest = std::max(largest, size);
  }
  return largest;
}

Result<uint64_t> Heap::allocate(uint64_t bytes) {
  const bool possible = bytes <= bytes_;
  const uint64_t size = std::max<uint64_t>((bytes + kPage - 1) / kPage, 1) * kPage;
  for (auto block = free_.begin(); possible && block != free_.end(); ++block) {
    const auto [offset, length] = *block;
    if (length < size) {
      continue;
    }
    free_.erase(block);
    if (length > size) {
      free_[offset + size] = length - size;
    }
    allocated_[offset] = size;
    used_ += size;
    return offset;
  }
  return fail(CCOM_RESOURCE,
              "{} bytes of shared memory were asked for: {} of {} are in use and the largest free "
              "block has {}; free some, or make the communicator with more (CCOM_MEMORY, "
              "options->memory_bytes)",
              bytes, used_, bytes_, largest_free());
}

Error Heap::no_block(uint64_t offset) {
  return fail(CCOM_INVALID,
              "no block of shared memory begins at offset {}: it was freed before, or is not "
              "what ccom_mem_alloc returned",
              offset);
}

Result<void> Heap::retire(uint64_t offset) {
  if (allocated_.erase(offset) == 0) {
    return no_block(offset);
  }
  return {};
}

Result<uint64_t> Heap::release(uint64_t offset) {
  const auto block = allocated_.find(offset);
  if (block == allocated_.end()) {
    return no_block(offset);
  }
  uint64_t size = block->second;
  const uint64_t freed = size;
  allocated_.erase(block);
  used_ -= size;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return freed;
    }
  }
  free_[offset] = size;
  return freed;
}

bool Heap::contains(uint64_t offset, uint64_t bytes) const {
  auto block = allocated_.upper_bound(offset);
  if (block == allocated_.begin()) {
    return false;
  }
  --block;
  const uint64_t at = offset - block->first;
  return at <= block->second && bytes <= block->second - at;
}

}  // namespace neuron::ccom
