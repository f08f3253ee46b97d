// SPDX-License-Identifier: Apache-2.0
//
// Reads parts of a file with several requests under way at a time.
// Concept: io_uring where the kernel lets this process have a ring, else pread; both give the same
// bytes and errors. Callers: FileImage, nrt_open_tensor_read_file; one thread. Owns: the
// descriptors and the ring. Fails: NRT_FAILURE for a file that cannot be opened or read,
// NRT_INVALID for a file that has become shorter, NRT_TIMEOUT when a read takes longer than
// ReadRing::kPatienceSeconds.
#ifndef RUNTIME_MODEL_FILE_READER_H
#define RUNTIME_MODEL_FILE_READER_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "driver/base/file_descriptor.h"
#include "runtime/base/error.h"
#include "runtime/model/read_ring.h"

namespace neuron::runtime {

class FileReader {
 public:
  static constexpr size_t kPiece = ReadRing::kPiece;

  // `ring`: whether io_uring may be used.
  static Result<std::unique_ptr<FileReader>> open(const std::string& path, bool ring = true);
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  uint64_t size() const { return size_; }

  Result<void> read(uint64_t offset, void* to, uint64_t bytes);
  // The same without a copy by this process: what the system has in its cache the kernel copies,
  // and the disk writes the rest into `to` itself (O_DIRECT), past the cache. Where file, memory or
  // range do not allow that, it goes through buffers. `to`: memory that stays mapped whatever
  // happens: after NRT_TIMEOUT a disk may still write there.
  Result<void> read_directly(uint64_t offset, void* to, uint64_t bytes);
  // Calls `take` with one piece after the other, in order, while the next are being read.
  Result<void> stream(uint64_t offset, uint64_t bytes,
                      const std::function<Result<void>(const std::byte* piece, uint64_t at,
                                                       uint64_t length)>& take);

 private:
  FileReader(std::string path, base::FileDescriptor descriptor, uint64_t size, bool ring);
  Result<void> read_plainly(uint64_t offset, std::byte* to, uint64_t bytes) const;
  Result<void> stream_in_ring(
      ReadRing& ring, uint64_t offset, uint64_t bytes,
      const std::function<Result<void>(const std::byte*, uint64_t, uint64_t)>& take);

  // What is in the cache, up to `bytes` of it; 0 for nothing, and where the system does not say.
  uint64_t read_cached(uint64_t offset, std::byte* to, uint64_t bytes) const;
  // The ring, made when it is first needed; null without one.
  ReadRing* ring();
  // Opens the file a second time, for transfers past the cache; alignment_ stays 0 without them.
  void open_direct();
  Result<void> no_answer();

  const std::string path_;
  const base::FileDescriptor descriptor_;
  const uint64_t size_;
  bool may_have_ring_;
  std::unique_ptr<ReadRing> ring_;
  base::FileDescriptor direct_;
  uint64_t alignment_ = 0;  // that such a transfer needs of file offset, memory and length
};

}  // namespace neuron::runtime

#endif
