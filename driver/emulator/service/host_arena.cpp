// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/host_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/emulator/chip/memory_file.h"

namespace neuron::service {
namespace {

// At any address with `at` null, else in the place of what is there.
void* map(void* at, uint64_t bytes, int file, uint64_t offset) {
  void* memory = ::mmap(at, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | (at == nullptr ? 0 : MAP_FIXED), file,
                        static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return memory;
  ::madvise(memory, bytes, MADV_DONTFORK);
  ::madvise(memory, bytes, MADV_DONTDUMP);
  return memory;
}

}  // namespace

HostArena::HostArena(uint64_t bytes) {
  file_ = chip::create_memory_file("neuron-host-memory");
  if (file_ < 0) return;
  void* memory = MAP_FAILED;
  // A process with a limit on its address space, or on the size of files, gets less.
  for (size_ = bytes; size_ >= (uint64_t{64} << 20); size_ /= 2) {
    if (chip::size_memory_file(file_, size_) != 0) continue;
    memory = map(nullptr, size_, file_, 0);
    if (memory != MAP_FAILED) break;
  }
  if (memory == MAP_FAILED) return;
  memory_ = static_cast<std::byte*>(memory);
  nd_pool_init(&pool_, 0, size_, nodes_.add(), NodeStore::kBatch);
}

HostArena::~HostArena() {
  if (memory_) ::munmap(memory_, size_);
  if (file_ >= 0) ::close(file_);
}

std::byte* HostArena::allocate(uint64_t size, nd_block** block) {
  if (!memory_) return nullptr;
  const std::lock_guard lock(mutex_);
  if (nd_pool_spare(&pool_) < ND_POOL_NODES_PER_ALLOCATION) {
    nd_pool_give_nodes(&pool_, nodes_.add(), NodeStore::kBatch);
  }
  if (nd_pool_allocate(&pool_, size, 0, block) != 0) return nullptr;
  return memory_ + (*block)->start;
}

void HostArena::free(nd_block* block) {
  const std::lock_guard lock(mutex_);
  (void)::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(block->start), static_cast<off_t>(block->size));
  nd_pool_free(&pool_, block);
}

bool HostArena::place(std::byte* memory, uint64_t bytes, int file) {
  const auto offset = static_cast<uint64_t>(memory - memory_);
  return map(memory, bytes, file < 0 ? file_ : file, file < 0 ? offset : 0) != MAP_FAILED;
}

uint64_t HostArena::used_bytes() {
  const std::lock_guard lock(mutex_);
  return pool_.size - pool_.free_bytes;
}

uint64_t HostArena::resident_bytes() const {
  struct stat status = {};
  if (file_ < 0 || ::fstat(file_, &status) != 0) return 0;
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

}  // namespace neuron::service
