// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/file_reader.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/base/log.h"

namespace neuron::runtime {

struct FileReader::Ring {
  io_uring ring = {};
  bool open = false;
  // Destroyed after the ring, so that an abandoned read does not write into freed memory.
  std::array<std::vector<std::byte>, kDepth> buffers;
  ~Ring() {
    if (open) io_uring_queue_exit(&ring);
  }
};

Result<std::unique_ptr<FileReader>> FileReader::open(const std::string& path, bool ring) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) {
    const int error = errno;
    if (descriptor >= 0) ::close(descriptor);
    return fail(NRT_FAILURE, "{} cannot be opened: {}", path, std::strerror(error));
  }
  std::unique_ptr<FileReader> reader(
      new FileReader(path, descriptor, static_cast<uint64_t>(status.st_size)));
  if (!S_ISREG(status.st_mode)) {
    return fail(NRT_INVALID, "{} is no regular file", path);
  }
  if (!ring) return reader;
  auto made = std::make_unique<Ring>();
  const int result = io_uring_queue_init(kDepth, &made->ring, 0);
  if (result != 0) {
    log_debug(LogComponent::kNmgr, "{} is read without io_uring: {}", path, std::strerror(-result));
    return reader;
  }
  made->open = true;
  io_uring_ring_dontfork(&made->ring);
  reader->ring_ = std::move(made);
  return reader;
}

FileReader::FileReader(std::string path, int descriptor, uint64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

FileReader::~FileReader() {
  ring_.reset();
  ::close(descriptor_);
}

Result<void> FileReader::read_plainly(uint64_t offset, std::byte* to, uint64_t bytes) const {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(descriptor_, to + done, bytes - done, static_cast<off_t>(offset + done));
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
  if (ring_ == nullptr || bytes <= kPiece) return read_plainly(offset, target, bytes);
  return stream(offset, bytes, [&](const std::byte* piece, uint64_t at, uint64_t length) {
    std::memcpy(target + at, piece, length);
    return Result<void>();
  });
}

Result<void> FileReader::stream(
    uint64_t offset, uint64_t bytes,
    const std::function<Result<void>(const std::byte*, uint64_t, uint64_t)>& take) {
  if (ring_ != nullptr) return stream_in_ring(offset, bytes, take);
  std::vector<std::byte> buffer(std::min<uint64_t>(bytes, kPiece));
  for (uint64_t at = 0; at < bytes; at += buffer.size()) {
    const uint64_t length = std::min<uint64_t>(bytes - at, buffer.size());
    NEURON_CHECK(read_plainly(offset + at, buffer.data(), length));
    NEURON_CHECK(take(buffer.data(), at, length));
  }
  return {};
}

Result<void> FileReader::stream_in_ring(
    uint64_t offset, uint64_t bytes,
    const std::function<Result<void>(const std::byte*, uint64_t, uint64_t)>& take) {
  io_uring* ring = &ring_->ring;
  const uint64_t pieces = (bytes + kPiece - 1) / kPiece;
  const auto length_of = [&](uint64_t piece) {
    return std::min<uint64_t>(kPiece, bytes - piece * kPiece);
  };
  // The result of the read into each buffer; empty while the read is under way.
  std::array<std::optional<int>, kDepth> results;
  uint64_t started = 0, under_way = 0;
  Result<void> result;
  bool broken = false;
  for (uint64_t piece = 0; piece < pieces && !broken; ++piece) {
    while (started < pieces && started < piece + kDepth) {
      io_uring_sqe* entry = io_uring_get_sqe(ring);
      if (entry == nullptr) break;
      std::vector<std::byte>& buffer = ring_->buffers[started % kDepth];
      buffer.resize(kPiece);
      io_uring_prep_read(entry, descriptor_, buffer.data(),
                         static_cast<unsigned>(length_of(started)), offset + started * kPiece);
      io_uring_sqe_set_data64(entry, started % kDepth);
      results[started % kDepth].reset();
      ++started;
      ++under_way;
    }
    if (io_uring_submit(ring) < 0) broken = true;
    while (!broken && !results[piece % kDepth]) {
      io_uring_cqe* completion = nullptr;
      __kernel_timespec limit = {kPatienceSeconds, 0};
      if (io_uring_wait_cqe_timeout(ring, &completion, &limit) != 0) {
        broken = true;
        break;
      }
      results[io_uring_cqe_get_data64(completion)] = completion->res;
      io_uring_cqe_seen(ring, completion);
      --under_way;
    }
    if (broken) break;
    std::byte* data = ring_->buffers[piece % kDepth].data();
    const auto got = static_cast<uint64_t>(std::max(*results[piece % kDepth], 0));
    // A file system may answer with a short or refused read. pread then completes it; if that
    // fails, too, its error says why.
    result = got < length_of(piece)
                 ? read_plainly(offset + piece * kPiece + got, data + got, length_of(piece) - got)
                 : Result<void>();
    if (result) result = take(data, piece * kPiece, length_of(piece));
    if (!result) break;
  }
  // Reads under way must end before their buffers are used again.
  while (!broken && under_way != 0) {
    io_uring_cqe* completion = nullptr;
    __kernel_timespec limit = {kPatienceSeconds, 0};
    if (io_uring_wait_cqe_timeout(ring, &completion, &limit) != 0) broken = true;
    if (!broken) io_uring_cqe_seen(ring, completion);
    --under_way;
  }
  if (!broken) return result;
  // Closing the ring waits until the kernel no longer uses the buffers.
  ring_.reset();
  return fail(NRT_TIMEOUT, "{} gave no answer to a read for {} s", path_, kPatienceSeconds);
}

}  // namespace neuron::runtime
