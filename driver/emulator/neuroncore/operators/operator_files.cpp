// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/operators/operator_files.h"

#include "driver/emulator/chip/memory_file.h"

namespace neuron::core {
namespace {

#ifndef MFD_EXEC
constexpr unsigned MFD_EXEC = 0x10U;  // Linux 6.3; older systems refuse it
#endif
// Above the numbers that the process's files will have.
constexpr int kFirstFile = 16;

int make_file(const char* name, bool executable) {
  const int file = executable ? chip::create_memory_file(name, MFD_EXEC, kFirstFile) : -1;
  return file >= 0 ? file : chip::create_memory_file(name, 0, kFirstFile);
}

}  // namespace

int OperatorMemory::create(const char* name, uint64_t bytes, bool executable) {
  reset();
  base::FileDescriptor file(make_file(name, executable));
  // The pages are there from the start: a write into one that the host lacks would end the host's
  // process.
  if (!file || !chip::may_have_file_of(bytes) ||
      fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0) {
    return errno;
  }
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (place == MAP_FAILED) return errno;
  bytes_ = {static_cast<std::byte*>(place), bytes};
  file_ = std::move(file);
  return 0;
}

int OperatorMemory::make_constant() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
  // Not F_SEAL_WRITE: a child that another thread of the host has just forked may have the mapping.
  return fcntl(file_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0 ? 0 : errno;
}

void OperatorMemory::reset() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  bytes_ = {};
  file_.reset();
}

}  // namespace neuron::core
