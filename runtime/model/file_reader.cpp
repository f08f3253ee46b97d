// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/model/page_cache.h"

namespace neuron::runtime {

Result<std::unique_ptr<FileReader>> FileReader::open(const std::string& path, bool ring) {
  base::FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!descriptor || ::fstat(descriptor.get(), &status) != 0) {
    return fail(NRT_FAILURE, "{} cannot be opened: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(NRT_INVALID, "{} is no regular file", path);
  }
  return std::unique_ptr<FileReader>(
      new FileReader(path, std::move(descriptor), static_cast<uint64_t>(status.st_size), ring));
}

FileReader::FileReader(std::string path, base::FileDescriptor descriptor, uint64_t size, bool ring)
    : path_(std::move(path)),
      descriptor_(std::move(descriptor)),
      size_(size),
      may_have_ring_(ring) {}

ReadRing* FileReader::ring() {
  if (!may_have_ring_ || ring_ != nullptr) return ring_.get();
  ring_ = ReadRing::create();
  if (ring_ == nullptr) {
    may_have_ring_ = false;
    log_debug(LogComponent::kNmgr, "{} is read without io_uring: {}", path_, std::strerror(errno));
  }
  return ring_.get();
}

Result<void> FileReader::read_plainly(uint64_t offset, std::byte* to, uint64_t bytes) const {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(descriptor_.get(), to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(NRT_FAILURE, "{} cannot be read at byte {}: {}", path_, offset + done,
                  std::strerror(errno));
    }
    if (got == 0) {
      return fail(NRT_INVALID, "{} ends at byte {} while it is read; it had {} bytes", path_,
                  offset + done, size_);
    }
    done += static_cast<uint64_t>(got);
  }
  return {};
}

Result<void> FileReader::read(uint64_t offset, void* to, uint64_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  if (bytes <= kPiece || ring() == nullptr) return read_plainly(offset, target, bytes);
  return stream(offset, bytes, [&](const std::byte* piece, uint64_t at, uint64_t length) {
    std::memcpy(target + at, piece, length);
    return Result<void>();
  });
}

Result<void> FileReader::stream(
    uint64_t offset, uint64_t bytes,
    const std::function<Result<void>(const std::byte*, uint64_t, uint64_t)>& take) {
  if (ReadRing* ring = this->ring()) return stream_in_ring(*ring, offset, bytes, take);
  std::vector<std::byte> buffer(std::min<uint64_t>(bytes, kPiece));
  for (uint64_t at = 0; at < bytes; at += buffer.size()) {
    const uint64_t length = std::min<uint64_t>(bytes - at, buffer.size());
    NEURON_CHECK(read_plainly(offset + at, buffer.data(), length));
    NEURON_CHECK(take(buffer.data(), at, length));
  }
  return {};
}

Result<void> FileReader::no_answer() {
  ring_.reset();
  may_have_ring_ = false;
  return fail(NRT_TIMEOUT, "{} gave no answer to a read for {} s", path_,
              ReadRing::kPatienceSeconds);
}

Result<void> FileReader::stream_in_ring(
    ReadRing& ring, uint64_t offset, uint64_t bytes,
    const std::function<Result<void>(const std::byte*, uint64_t, uint64_t)>& take) {
  const uint64_t pieces = (bytes + kPiece - 1) / kPiece;
  const auto length_of = [&](uint64_t piece) {
    return std::min<uint64_t>(kPiece, bytes - piece * kPiece);
  };
  if (pieces > uint64_t{2} * ReadRing::kDepth) ring.register_buffers();
  uint64_t begun = 0;
  Result<void> result;
  for (uint64_t piece = 0; piece < pieces && result; ++piece) {
    for (; begun < pieces && begun < piece + ReadRing::kDepth; ++begun) {
      const unsigned slot = begun % ReadRing::kDepth;
      ring.begin(slot, descriptor_.get(), ring.buffer(slot), length_of(begun),
                 offset + begun * kPiece);
    }
    const unsigned slot = piece % ReadRing::kDepth;
    const int answer = ring.wait(slot);  // bounded: by ReadRing::kPatienceSeconds
    if (answer == ReadRing::kNoAnswer) return no_answer();
    std::byte* data = ring.buffer(slot);
    const auto got = static_cast<uint64_t>(std::max(answer, 0));
    // A file system may answer with a short or refused read. pread then completes it; if that
    // fails, too, its error says why.
    result = read_plainly(offset + piece * kPiece + got, data + got, length_of(piece) - got);
    if (result) result = take(data, piece * kPiece, length_of(piece));
  }
  // Reads under way must end before their buffers are used again.
  if (!ring.drain()) return no_answer();
  return result;
}

uint64_t FileReader::read_cached(uint64_t offset, std::byte* to, uint64_t bytes) const {
  const iovec vector = {to, bytes};
  const ssize_t got =
      ::preadv2(descriptor_.get(), &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return static_cast<uint64_t>(std::max<ssize_t>(got, 0));
}

void FileReader::open_direct() {
  if (direct_ || ring() == nullptr) return;
  // Another file may have the name by now.
  const std::string name = "/proc/self/fd/" + std::to_string(descriptor_.get());
  direct_.reset(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT));
  if (!direct_) return;
  // What all disks and file systems take. A larger demand is answered with EINVAL, and such a piece
  // is read through the cache.
  alignment_ = 4096;
}

Result<void> FileReader::read_directly(uint64_t offset, void* to, uint64_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  if (bytes < kPiece) return read_plainly(offset, target, bytes);
  // Pieces end at a boundary of the file, so that all but the first and the last are aligned.
  const uint64_t end = offset + bytes;
  struct Piece {
    uint64_t at = 0;
    uint64_t length = 0;
    std::byte* to = nullptr;
    bool through_buffer = false;
  };
  std::array<Piece, ReadRing::kDepth> pieces;
  // Takes what was begun with this slot, if anything.
  const auto finish = [&](unsigned slot) -> Result<void> {
    const Piece piece = std::exchange(pieces[slot], {});
    if (piece.length == 0) return {};
    const int answer = ring_->wait(slot);  // bounded: by ReadRing::kPatienceSeconds
    if (answer == ReadRing::kNoAnswer) return no_answer();
    const uint64_t got =
        std::min<uint64_t>(static_cast<uint64_t>(std::max(answer, 0)), piece.length);
    if (piece.through_buffer) std::memcpy(piece.to, ring_->buffer(slot), got);
    // Memory of a device that the kernel cannot pin, a file system without such transfers.
    if (answer == -EFAULT || answer == -EINVAL || answer == -EOPNOTSUPP) alignment_ = 0;
    return read_plainly(piece.at + got, piece.to + got, piece.length - got);
  };
  PageCache cache(descriptor_.get(), offset, bytes);
  bool knows_cache = true;
  Result<void> result;
  unsigned slot = 0;
  for (uint64_t at = offset; at < end && result;) {
    const uint64_t length = std::min(end, (at / kPiece + 1) * kPiece) - at;
    std::byte* place = target + (at - offset);
    const uint64_t resident = knows_cache ? cache.resident(at, length) : 0;
    const uint64_t cached = resident != 0 ? read_cached(at, place, resident) : 0;
    // What is said to be there and is not makes the kernel read ahead: not again.
    if (cached < resident) knows_cache = false;
    const Piece rest = {at + cached, length - cached, place + cached};
    at += length;
    if (rest.length == 0) continue;
    result = finish(slot);
    if (!result) break;
    open_direct();
    if (alignment_ == 0 || rest.at % alignment_ != 0 || rest.length % alignment_ != 0) {
      result = read_plainly(rest.at, rest.to, rest.length);
      continue;
    }
    pieces[slot] = rest;
    pieces[slot].through_buffer = reinterpret_cast<uintptr_t>(rest.to) % alignment_ != 0;
    if (pieces[slot].through_buffer && bytes > 2 * ReadRing::kDepth * kPiece) {
      ring_->register_buffers();
    }
    ring_->begin(slot, direct_.get(), pieces[slot].through_buffer ? ring_->buffer(slot) : rest.to,
                 rest.length, rest.at);
    slot = (slot + 1) % ReadRing::kDepth;
  }
  for (unsigned n = 0; n < ReadRing::kDepth && result; ++n) {
    result = finish((slot + n) % ReadRing::kDepth);
  }
  // The disk must not write to `to` any more.
  if (ring_ != nullptr && !ring_->drain()) return no_answer();
  return result;
}

}  // namespace neuron::runtime
