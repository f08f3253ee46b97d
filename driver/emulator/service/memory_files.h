// SPDX-License-Identifier: Apache-2.0
// Memory files of single allocations, for processes that map what they have allocated.
//
// Concepts: a process that maps a file can make every page of it resident, and sees every byte. So
// a file has the bytes of one allocation, and seals keep them what they are. Where no processes are
// served there are none. Callers: the memory of any device (a mutex, which is the last one taken).
// Owns: the shares of users; the files are the callers'. Fails: create returns no descriptor when
// the share is used up or the host gives none; the allocation is then reached by copies only.
#ifndef DRIVER_EMULATOR_SERVICE_MEMORY_FILES_H
#define DRIVER_EMULATOR_SERVICE_MEMORY_FILES_H

#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "driver/base/file_descriptor.h"
#include "driver/emulator/service/shares.h"

namespace neuron::service {

class MemoryFiles {
 public:
  // From now on there may be `most`. Before the first device is opened.
  void allow(size_t most) { shares_.emplace(most); }
  bool allowed() const { return shares_.has_value(); }

  // A file of `bytes` zeros that nobody can grow or shrink.
  base::FileDescriptor create(uint64_t bytes, const Client& owner);
  // Its pages go back to the host, also if the owner still maps it; what it writes from then on is
  // memory of its own. Allocates nothing.
  void remove(base::FileDescriptor file, uint64_t bytes, const Client& owner);
  // Memory of the host in all files.
  uint64_t resident_bytes();

 private:
  std::optional<Shares> shares_;
  std::mutex mutex_;
  std::unordered_set<int> files_;
};

}  // namespace neuron::service

#endif
