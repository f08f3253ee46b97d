// SPDX-License-Identifier: Apache-2.0
//
// Reads parts of a file with several requests under way at a time.
// Concept: io_uring where the kernel lets this process have a ring, else pread; both give the same
// bytes and errors. Callers: FileImage, one thread. Owns: the descriptor and the ring.
// Fails: NRT_FAILURE for a file that cannot be opened or read, NRT_INVALID for a file that has
// become shorter. No read waits longer than kPatience.
#ifndef RUNTIME_MODEL_FILE_READER_H
#define RUNTIME_MODEL_FILE_READER_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/error.h"

namespace neuron::runtime {

class FileReader {
 public:
  static constexpr size_t kPiece = 1u << 20;
  static constexpr unsigned kDepth = 4;  // pieces under way
  static constexpr int kPatienceSeconds = 60;

  // `ring`: whether io_uring may be used.
  static Result<std::unique_ptr<FileReader>> open(const std::string& path, bool ring = true);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  uint64_t size() const { return size_; }
  bool has_ring() const { return ring_ != nullptr; }

  Result<void> read(uint64_t offset, void* to, uint64_t bytes);
  // Calls `take` with one piece after the other, in order, while the next are being read.
  Result<void> stream(uint64_t offset, uint64_t bytes,
                      const std::function<Result<void>(const std::byte* piece, uint64_t at,
                                                       uint64_t length)>& take);

 private:
  struct Ring;

  FileReader(std::string path, int descriptor, uint64_t size);
  Result<void> read_plainly(uint64_t offset, std::byte* to, uint64_t bytes) const;
  Result<void> stream_in_ring(
      uint64_t offset, uint64_t bytes,
      const std::function<Result<void>(const std::byte*, uint64_t, uint64_t)>& take);

  const std::string path_;
  const int descriptor_;
  const uint64_t size_;
  std::unique_ptr<Ring> ring_;
};

}  // namespace neuron::runtime

#endif
