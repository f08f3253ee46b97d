// SPDX-License-Identifier: Apache-2.0
// The arenas that the ranks of this host share, and the heap of ccom_mem_alloc in this rank's own.
//
// Callers: the communicator's thread. Thread-safe: no. Owns: this rank's arena; arenas of ranks
// that are threads of one process are shared between their communicators. Fails: CCOM_RESOURCE with
// the free size, CCOM_INVALID for memory that it did not allocate.
#ifndef CCOM_COMMUNICATOR_SHARED_MEMORY_H
#define CCOM_COMMUNICATOR_SHARED_MEMORY_H

#include <memory>
#include <vector>

#include "ccom/communicator/heap.h"
#include "ccom/schedule/step.h"
#include "ccom/transport/arena.h"

namespace neuron::ccom {

struct MemoryUse {
  uint64_t allocated = 0;
  uint64_t working = 0;
};

class SharedMemory {
 public:
  // `arenas`: by rank; null: on another host, or without shared memory. `rank` itself has one.
  SharedMemory(std::vector<std::shared_ptr<Arena>> arenas, Rank rank);

  std::vector<Arena*> arenas() const;
  // The flight recorder of a rank, readable even after its death; null: it is not visible here.
  std::byte* flight(Rank rank) const;

  Result<void*> allocate(size_t bytes);
  Result<void> release(void* memory);
  // The same, but allocate() does not give it again: others may still write there.
  Result<void> retire(void* memory);
  // Whether the bytes lie in one block that allocate() gave.
  bool allocated(const void* memory, uint64_t bytes) const;

  // Returns the pages of the staging memory to the system. No rank may use it meanwhile.
  void give_back();
  // What ccom_mem_alloc has given, and what of the staging memory has pages.
  MemoryUse use() const;

 private:
  uint64_t offset_of(const void* memory) const {
    return reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(heap_at_);
  }
  Error not_freed(const void* memory, const Error& why) const;

  std::vector<std::shared_ptr<Arena>> arenas_;
  Rank rank_;
  std::byte* heap_at_;
  Heap heap_;
};

}  // namespace neuron::ccom

#endif
