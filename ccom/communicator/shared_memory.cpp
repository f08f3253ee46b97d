// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "ccom/transport/arena_layout.h"

namespace neuron::ccom {
namespace {

constexpr size_t kLargeBlock = 64u << 20;
constexpr uint64_t kStaging = CCOM_MAX_STREAMS * ArenaLayout::kStagingBytes;

// Bytes that the host can still give; 0: unknown.
uint64_t available_memory() {
  FILE* file = fopen("/proc/meminfo", "re");
  if (file == nullptr) {
    return 0;
  }
  char line[128];
  unsigned long long kilobytes = 0;
  while (fgets(line, sizeof(line), file) != nullptr) {
    if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1) {
      break;
    }
  }
  fclose(file);
  return uint64_t{kilobytes} << 10;
}

}  // namespace

SharedMemory::SharedMemory(std::vector<std::shared_ptr<Arena>> arenas, Rank rank)
    : arenas_(std::move(arenas)),
      rank_(rank),
      heap_at_(arenas_[rank]->data() + ArenaLayout::of(static_cast<uint32_t>(arenas_.size())).heap),
      heap_(arenas_[rank]->size() - ArenaLayout::of(static_cast<uint32_t>(arenas_.size())).heap) {}

std::vector<Arena*> SharedMemory::arenas() const {
  std::vector<Arena*> result;
  for (const auto& arena : arenas_) {
    result.push_back(arena.get());
  }
  return result;
}

std::byte* SharedMemory::flight(Rank rank) const {
  const ArenaLayout layout = ArenaLayout::of(static_cast<uint32_t>(arenas_.size()));
  return arenas_[rank] != nullptr ? arenas_[rank]->data() + layout.flight : nullptr;
}

Result<void*> SharedMemory::allocate(size_t bytes) {
  // Pages are allocated on first use; a host without memory would kill the process then.
  if (bytes >= kLargeBlock) {
    const uint64_t available = available_memory();
    if (available != 0 && bytes > available) {
      return fail(CCOM_RESOURCE,
                  "rank {}: {} bytes of shared memory were asked for, but the host has only {} "
                  "bytes available",
                  rank_, bytes, available);
    }
  }
  const auto offset = heap_.allocate(bytes);
  if (!offset) {
    return offset.error().with("rank {}", rank_);
  }
  return static_cast<void*>(heap_at_ + *offset);
}

Error SharedMemory::not_freed(const void* memory, const Error& why) const {
  return why.with("rank {}: ccom_mem_free({:#x})", rank_, reinterpret_cast<uintptr_t>(memory));
}

Result<void> SharedMemory::retire(void* memory) {
  const auto retired = heap_.retire(offset_of(memory));
  return retired ? retired : not_freed(memory, retired.error());
}

Result<void> SharedMemory::release(void* memory) {
  const auto freed = heap_.release(offset_of(memory));
  if (!freed) {
    return not_freed(memory, freed.error());
  }
  // Returns the pages of large blocks to the system; the next owner finds zeros.
  if (*freed >= (2u << 20)) {
    madvise(memory, *freed, MADV_REMOVE);
  }
  return {};
}

bool SharedMemory::allocated(const void* memory, uint64_t bytes) const {
  return heap_.contains(offset_of(memory), bytes);
}

void SharedMemory::give_back() {
  const ArenaLayout layout = ArenaLayout::of(static_cast<uint32_t>(arenas_.size()));
  madvise(arenas_[rank_]->data() + layout.staging, kStaging, MADV_REMOVE);
}

MemoryUse SharedMemory::use() const {
  MemoryUse use;
  use.allocated = heap_.used();
  const ArenaLayout layout = ArenaLayout::of(static_cast<uint32_t>(arenas_.size()));
  const int file = arenas_[rank_]->descriptor();
  const auto end = static_cast<off_t>(layout.staging + kStaging);
  // The file has data where it has pages.
  auto at = lseek(file, static_cast<off_t>(layout.staging), SEEK_DATA);
  while (at >= 0 && at < end) {
    const off_t hole = lseek(file, at, SEEK_HOLE);
    use.working += static_cast<uint64_t>(std::min(hole < 0 ? end : hole, end) - at);
    at = hole < 0 ? hole : lseek(file, hole, SEEK_DATA);
  }
  return use;
}

}  // namespace neuron::ccom
