// SPDX-License-Identifier: Apache-2.0
// Host memory that the service hands out: DMA buffers, rings, queues, datastores.
//
// Concepts: one sparse memory file, mapped whole and filled on first use. Freed ranges go back to
// the host but stay addressable, so that a late transfer reads zeros and never faults. Not
// inherited by fork, as the mappings of a kernel driver are not. Callers: any thread (a mutex).
// Owns file and mapping. Fails: allocate returns null when the range is used up; place is false
// when the host refuses, and then changes nothing.
#ifndef DRIVER_EMULATOR_SERVICE_HOST_ARENA_H
#define DRIVER_EMULATOR_SERVICE_HOST_ARENA_H

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "driver/emulator/service/node_store.h"

namespace neuron::service {

class HostArena {
 public:
  explicit HostArena(uint64_t bytes = uint64_t{1} << 36);
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  bool valid() const { return memory_ != nullptr; }
  // Page-aligned, zeroed; `block` identifies it for free().
  std::byte* allocate(uint64_t size, nd_block** block);
  void free(nd_block* block);
  // Maps a file in the place of a range that was given out, or with -1 the arena's own again.
  bool place(std::byte* memory, uint64_t bytes, int file);
  uint64_t used_bytes();
  uint64_t resident_bytes() const;

  uint64_t bytes() const { return size_; }

 private:
  int file_ = -1;
  std::byte* memory_ = nullptr;
  uint64_t size_ = 0;
  std::mutex mutex_;
  NodeStore nodes_;
  nd_pool pool_{};
};

}  // namespace neuron::service

#endif
