// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/memory_files.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "driver/emulator/chip/memory_file.h"

namespace neuron::service {

base::FileDescriptor MemoryFiles::create(uint64_t bytes, const Client& owner) {
  if (!shares_) return base::FileDescriptor();
  const std::lock_guard lock(mutex_);
  if (!shares_->has_share(owner)) return base::FileDescriptor();
  base::FileDescriptor file(chip::create_memory_file("neuron-memory"));
  if (!file || chip::size_memory_file(file.get(), bytes) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::FileDescriptor();
  }
  files_.insert(file.get());
  try {
    shares_->take(owner);
  } catch (...) {
    files_.erase(file.get());
    throw;
  }
  return file;
}

void MemoryFiles::remove(base::FileDescriptor file, uint64_t bytes, const Client& owner) {
  (void)::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    static_cast<off_t>(bytes));
  const std::lock_guard lock(mutex_);
  files_.erase(file.get());
  shares_->give_back(owner);
  file.reset();
}

uint64_t MemoryFiles::resident_bytes() {
  const std::lock_guard lock(mutex_);
  uint64_t blocks = 0;
  for (const int file : files_) {
    struct stat status = {};
    if (::fstat(file, &status) == 0) blocks += static_cast<uint64_t>(status.st_blocks);
  }
  return blocks * 512;
}

}  // namespace neuron::service
