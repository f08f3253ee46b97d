// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/host_arena.h"

#include <sys/mman.h>

#include <algorithm>

namespace neuron::service {

HostArena::HostArena(uint64_t bytes) {
  void* memory = MAP_FAILED;
  // A process with a limit on its address space gets less.
  for (size_ = bytes; memory == MAP_FAILED && size_ >= (uint64_t{64} << 20); size_ /= 2) {
    memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) break;
  }
  if (memory == MAP_FAILED) return;
  ::madvise(memory, size_, MADV_DONTFORK);
  ::madvise(memory, size_, MADV_DONTDUMP);
  memory_ = static_cast<std::byte*>(memory);
  nd_pool_init(&pool_, 0, size_, nodes_.add(), NodeStore::kBatch);
}

HostArena::~HostArena() {
  if (memory_) ::munmap(memory_, size_);
}

std::byte* HostArena::allocate(uint64_t size, nd_block** block) {
  if (!memory_) return nullptr;
  const std::lock_guard lock(mutex_);
  if (nd_pool_spare(&pool_) < ND_POOL_NODES_PER_ALLOCATION)
    nd_pool_give_nodes(&pool_, nodes_.add(), NodeStore::kBatch);
  if (nd_pool_allocate(&pool_, size, 0, block) != 0) return nullptr;
  return memory_ + (*block)->start;
}

void HostArena::free(nd_block* block) {
  const std::lock_guard lock(mutex_);
  ::madvise(memory_ + block->start, block->size, MADV_DONTNEED);
  nd_pool_free(&pool_, block);
}

uint64_t HostArena::used_bytes() {
  const std::lock_guard lock(mutex_);
  return pool_.size - pool_.free_bytes;
}

uint64_t HostArena::resident_bytes() {
  const std::lock_guard lock(mutex_);
  std::vector<unsigned char> pages(4096);
  uint64_t resident = 0;
  for (const nd_block* block = pool_.first; block; block = block->next) {
    if (block->free) continue;
    for (uint64_t done = 0; done < block->size;) {
      const uint64_t part = std::min<uint64_t>(block->size - done, pages.size() * ND_PAGE_SIZE);
      if (::mincore(memory_ + block->start + done, part, pages.data()) == 0)
        for (uint64_t page = 0; page < part / ND_PAGE_SIZE; page++)
          resident += (pages[page] & 1) ? ND_PAGE_SIZE : 0;
      done += part;
    }
  }
  return resident;
}

}  // namespace neuron::service
