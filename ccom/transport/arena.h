// SPDX-License-Identifier: Apache-2.0
// The memory that ranks of one host share: one memory file for each rank, mapped by all of them.
//
// Concepts: an arena has a head (flight recorder and control words), staging memory, and a heap for
// ccom_mem_alloc. A rank writes its own arena, and those slots of other arenas that the layout
// gives it. By convention it only reads all other memory of a peer. Address space is reserved, and
// pages are allocated on first use. Thread-safe: const calls. Owns: mapping and descriptor; files
// have no name, so nothing is left behind.
#ifndef CCOM_TRANSPORT_ARENA_H
#define CCOM_TRANSPORT_ARENA_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ccom/base/error.h"

namespace neuron::ccom {

inline constexpr uint64_t kHugePage = 2u << 20;

class Arena {
 public:
  // Makes the file (sealed against shrinking) and maps it. `bytes` is rounded up to 2 MiB.
  static Result<std::unique_ptr<Arena>> create(uint64_t bytes);
  // Maps a peer's file and takes ownership of the descriptor. Refuses a file that is not sealed.
  static Result<std::unique_ptr<Arena>> map(int descriptor);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  int descriptor() const { return descriptor_; }
  bool contains(const void* address, uint64_t bytes) const {
    const auto at = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(data_);
    return at <= size_ && bytes <= size_ - at;
  }

 private:
  Arena(std::byte* data, uint64_t size, int descriptor)
      : data_(data), size_(size), descriptor_(descriptor) {}

  std::byte* data_;
  uint64_t size_;
  int descriptor_;
};

}  // namespace neuron::ccom

#endif
