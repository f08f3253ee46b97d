// SPDX-License-Identifier: Apache-2.0
#include "runtime/ntff/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "driver/base/crc32.h"
#include "driver/base/json_text.h"

namespace neuron::ntff {

struct ChunkHeader {
  uint32_t kind = 0;
  uint32_t flags = 0;
  uint32_t part = 0;
  uint32_t index = 0;
  uint32_t stored = 0;  // bytes behind this header
  // Of this header, with 0 here. Before version 3 the upper half of `stored`, and always 0.
  uint32_t header_crc32 = 0;
  uint32_t bytes = 0;  // of the contents
  uint32_t crc32 = 0;  // of the contents
};
static_assert(sizeof(ChunkHeader) == 32);

namespace {

using runtime::fail;
using runtime::fail_with_errno;
using runtime::Result;

// "NTFF" is the original's name; the rest says whose it is.
constexpr std::array<char, 8> kMagic = {'N', 'R', 'O', 'P', 'N', 'T', 'F', '\n'};
constexpr uint32_t kDeflated = 1;
constexpr size_t kWaiting = 64 << 10;
constexpr size_t kWorthDeflating = 512;
constexpr uint32_t kLargestChunk = 256u << 20;
constexpr uint32_t kHeadersAreChecked = 3;  // from this version on
// So much host time may pass until a whole execution reaches the file.
constexpr auto kFlushAfter = std::chrono::milliseconds(100);

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t bytes = 32;  // of this header; chunks begin behind it
  uint64_t zero[2] = {};
};
static_assert(sizeof(FileHeader) == 32);

template <class T>
std::span<const uint8_t> bytes_of(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof(value)};
}

uint32_t checksum_of(ChunkHeader header) {
  header.header_crc32 = 0;
  return base::crc32(bytes_of(header));
}

// Makes this the only writer of a regular file, and empties it. The lock belongs to the open file,
// so it tells apart two writers of one process, and ends with the writer.
Result<void> take_alone(int file, const std::string& path) {
  struct stat status = {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return fail(NRT_INVALID,
                "the profile '{}' is being written by another profile, of this process or another "
                "one; stop that one first, or name another file",
                path);
  }
  if (::ftruncate(file, 0) == 0) return {};
  return fail_with_errno(NRT_INVALID, errno, "cannot write the profile '{}'", path);
}

}  // namespace

Result<TraceFileWriter> TraceFileWriter::create(const std::string& path, Existing existing) {
  // Without O_NONBLOCK, opening a FIFO would wait for a reader.
  const int flags =
      O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (existing == Existing::kRefused ? O_EXCL : 0);
  base::FileDescriptor file(base::above_standard_streams(::open(path.c_str(), flags, 0666)));
  if (!file) return fail_with_errno(NRT_INVALID, errno, "cannot write the profile '{}'", path);
  NEURON_CHECK(take_alone(file.get(), path));
  TraceFileWriter writer(path, std::move(file));
  writer.put(bytes_of(FileHeader{}));
  NEURON_CHECK(writer.finish());
  return writer;
}

void TraceFileWriter::discard() {
  struct stat status = {}, named = {};
  // The name may lead to another file by now.
  const bool ours = file_ && ::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode) &&
                    ::stat(path_.c_str(), &named) == 0 && named.st_ino == status.st_ino &&
                    named.st_dev == status.st_dev;
  if (ours) ::unlink(path_.c_str());
  file_ = base::FileDescriptor();
  waiting_.clear();
  state_ = fail(NRT_FAILURE, "the profile '{}' was given up", path_);
}

Result<void> TraceFileWriter::finish() {
  std::span<const uint8_t> bytes = waiting_;
  while (state_ && !bytes.empty() && file_) {
    const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      give_up(errno, bytes.size());
      break;
    }
    reached_ += static_cast<uint64_t>(done);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  waiting_.clear();
  flushed_ = std::chrono::steady_clock::now();
  if (state_ && ends_.size() > 1) ends_.erase(ends_.begin(), ends_.end() - 1);
  return state_;
}

void TraceFileWriter::give_up(int reason, uint64_t left) {
  struct statvfs room = {};
  const bool known = ::fstatvfs(file_.get(), &room) == 0;
  const std::string free =
      known ? runtime::format("{} are free", uint64_t{room.f_bavail} * room.f_frsize)
            : std::string("it is not known how many are free");
  uint64_t whole = 0;
  for (const uint64_t end : ends_) whole = end <= reached_ ? std::max(whole, end) : whole;
  struct stat status = {};
  const bool regular = ::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode);
  std::string becomes = "what was written before stays";
  if (regular && whole != 0) {
    becomes = end_early(reason, whole) ? "the file ends with the last whole execution, and says so"
                                       : "the file ends with the last whole execution";
    file_ = base::FileDescriptor();
  } else if (regular) {
    discard();
    becomes = "the file is removed, since no execution in it is whole";
  }
  state_ = fail_with_errno(NRT_RESOURCE, reason,
                           "the profile '{}' could not be written further: {} bytes more were to "
                           "go there, and {}; {}; make room there, or name a file elsewhere",
                           path_, left, free, becomes);
}

bool TraceFileWriter::end_early(int reason, uint64_t whole) {
  if (::ftruncate(file_.get(), static_cast<off_t>(whole)) != 0) return false;
  const std::string text = runtime::format(
      R"({{"cut":{}}})", base::json_string(std::generic_category().message(reason)));
  const std::span bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  ChunkHeader header;
  header.kind = static_cast<uint32_t>(ChunkKind::kEnd);
  header.stored = header.bytes = static_cast<uint32_t>(text.size());
  header.crc32 = base::crc32(bytes);
  header.header_crc32 = checksum_of(header);
  const auto head = bytes_of(header);
  std::vector<uint8_t> chunk(head.begin(), head.end());
  chunk.insert(chunk.end(), bytes.begin(), bytes.end());
  const ssize_t done = ::pwrite(file_.get(), chunk.data(), chunk.size(), static_cast<off_t>(whole));
  if (done == static_cast<ssize_t>(chunk.size())) return true;
  // Half an end is none. A file that cannot be cut either ends within a chunk, which readers bear.
  [[maybe_unused]] const int cut = ::ftruncate(file_.get(), static_cast<off_t>(whole));
  return false;
}

void TraceFileWriter::EndDeflation::operator()(z_stream_s* stream) const {
  deflateEnd(stream);
  delete stream;
}

bool TraceFileWriter::deflate(std::span<const uint8_t> bytes) {
  if (deflation_ == nullptr) {
    auto stream = std::make_unique<z_stream>();
    // Level 1: entries shrink to a fifth, and the program that is profiled waits meanwhile.
    if (deflateInit(stream.get(), 1) != Z_OK) return false;
    deflation_.reset(stream.release());
  } else if (deflateReset(deflation_.get()) != Z_OK) {
    return false;
  }
  deflated_.resize(deflateBound(deflation_.get(), bytes.size()));
  deflation_->next_in = const_cast<Bytef*>(bytes.data());
  deflation_->avail_in = static_cast<uInt>(bytes.size());
  deflation_->next_out = deflated_.data();
  deflation_->avail_out = static_cast<uInt>(deflated_.size());
  if (::deflate(deflation_.get(), Z_FINISH) != Z_STREAM_END) return false;
  deflated_.resize(deflation_->total_out);
  return deflated_.size() < bytes.size();
}

Result<void> TraceFileWriter::write(ChunkKind kind, ChunkPlace place,
                                    std::span<const uint8_t> bytes) {
  if (!state_) return state_;
  ChunkHeader header{.kind = static_cast<uint32_t>(kind),
                     .flags = kDeflated,
                     .part = place.part,
                     .index = place.index,
                     .stored = 0,
                     .header_crc32 = 0,
                     .bytes = static_cast<uint32_t>(bytes.size()),
                     .crc32 = base::crc32(bytes)};
  if (bytes.size() > kLargestChunk) {
    return state_ = fail(NRT_INVALID, "a chunk of {} bytes is too large for the profile '{}'",
                         bytes.size(), path_);
  }
  if (bytes.size() >= kWorthDeflating && deflate(bytes)) {
    bytes = deflated_;
  } else {
    header.flags = 0;
  }
  header.stored = static_cast<uint32_t>(bytes.size());
  header.header_crc32 = checksum_of(header);
  put(bytes_of(header));
  put(bytes);
  if (waiting_.size() >= kWaiting) {
    if (kind == ChunkKind::kExecution) ends_.push_back(written_);
    return finish();
  }
  if (kind != ChunkKind::kExecution) return state_;
  // Whoever kills the process wants to read what it did until then.
  const bool first = ends_.empty();
  ends_.push_back(written_);
  if (!first && std::chrono::steady_clock::now() - flushed_ < kFlushAfter) return state_;
  return finish();
}

Result<TraceFileReader> TraceFileReader::open(const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  base::FileDescriptor file(
      base::above_standard_streams(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
  if (!file) return fail_with_errno(NRT_INVALID, errno, "cannot read the profile '{}'", path);
  return read(std::move(file), path);
}

Result<TraceFileReader> TraceFileReader::read(base::FileDescriptor file, std::string path) {
  TraceFileReader reader(std::move(file), std::move(path));
  NEURON_CHECK(reader.rewind());
  return reader;
}

Result<void> TraceFileReader::rewind() {
  if (::lseek(file_.get(), 0, SEEK_SET) != 0) {
    return fail_with_errno(NRT_INVALID, errno, "'{}' is no file that can be read twice", path_);
  }
  struct stat status = {};
  size_ = ::fstat(file_.get(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  at_ = 0;
  cut_ = false;
  FileHeader header;
  NEURON_TRY(got, get(&header, sizeof(header)));
  if (got != sizeof(header) || header.magic != kMagic) {
    return fail(NRT_INVALID,
                "'{}' is no profile of this project: its first bytes are not \"NROPNTF\". Profiles "
                "of the vendor's tools have a format of their own, which is not public; capture "
                "the NEFF here with `neuron-profile capture -n FILE.neff`",
                path_);
  }
  version_ = header.version;
  if (version_ == 0 || version_ > kVersion) {
    return fail(NRT_INVALID,
                "'{}' has version {} of the profile format, and this program reads versions up to "
                "{}: view it with the program of the version that captured it, or a later one",
                path_, version_, kVersion);
  }
  if (header.bytes < sizeof(header) || header.bytes > 4096) {
    return fail(NRT_INVALID, "'{}' says that its header has {} bytes, expected 32 to 4096", path_,
                header.bytes);
  }
  if (::lseek(file_.get(), header.bytes, SEEK_SET) < 0) {
    return fail_with_errno(NRT_INVALID, errno, "'{}' cannot be read from its first chunk", path_);
  }
  at_ = header.bytes;
  return {};
}

Result<size_t> TraceFileReader::get(void* to, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file_.get(), static_cast<uint8_t*>(to) + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail_with_errno(NRT_INVALID, errno, "the profile '{}' cannot be read at byte {}",
                             path_, at_ + done);
    }
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  at_ += done;
  return done;
}

Result<bool> TraceFileReader::skip(uint64_t bytes) {
  struct stat status = {};
  // Behind its end a file has no bytes, and a place all the same.
  if (::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode)) {
    const auto size = static_cast<uint64_t>(status.st_size);
    if (bytes > size - std::min(at_, size)) return false;
  }
  if (::lseek(file_.get(), static_cast<off_t>(bytes), SEEK_CUR) < 0) {
    return fail_with_errno(NRT_INVALID, errno, "the profile '{}' cannot be read behind byte {}",
                           path_, at_);
  }
  at_ += bytes;
  return true;
}

Result<bool> TraceFileReader::find_header(uint32_t kinds, ChunkHeader& header) {
  // bounded: each turn passes over a chunk of the file.
  for (;;) {
    begun_ = at_;
    NEURON_TRY(got, get(&header, sizeof(header)));
    if (got == 0) return false;
    cut_ = got != sizeof(header);
    if (cut_) return false;
    NEURON_CHECK(check(header));
    if ((kinds >> std::min(header.kind, 31u) & 1) != 0) return true;
    NEURON_TRY(whole, skip(header.stored));
    cut_ = !whole;
    if (cut_) return false;
  }
}

Result<std::optional<Chunk>> TraceFileReader::next(uint32_t kinds) {
  ChunkHeader header;
  NEURON_TRY(found, find_header(kinds, header));
  if (!found) return std::optional<Chunk>();
  return contents_of(header);
}

Result<std::optional<TraceFileReader::Found>> TraceFileReader::find(uint32_t kinds) {
  ChunkHeader header;
  NEURON_TRY(found, find_header(kinds, header));
  if (!found) return std::optional<Found>();
  const Found result{.kind = static_cast<ChunkKind>(header.kind),
                     .place = {.part = header.part, .index = header.index},
                     .at = begun_};
  NEURON_TRY(whole, skip(header.stored));
  cut_ = !whole;
  if (cut_) return std::optional<Found>();
  return std::optional<Found>(result);
}

Result<std::optional<Chunk>> TraceFileReader::chunk_at(uint64_t at) {
  if (::lseek(file_.get(), static_cast<off_t>(at), SEEK_SET) < 0) {
    return fail_with_errno(NRT_INVALID, errno, "the profile '{}' cannot be read at byte {}", path_,
                           at);
  }
  at_ = at;
  return next();
}

Result<void> TraceFileReader::check(const ChunkHeader& header) const {
  // A hole in a file reads as zeros, as many as its size says.
  if (header.kind == 0) {
    return fail(NRT_INVALID,
                "the profile '{}' is damaged: at byte {}, where a chunk should begin, there are "
                "zeros; copy the file again from where it was written",
                path_, begun_);
  }
  const uint32_t expected = version_ < kHeadersAreChecked ? 0 : checksum_of(header);
  if (header.header_crc32 != expected) {
    return fail(NRT_INVALID,
                "the profile '{}' is damaged: the header of its chunk at byte {} has the checksum "
                "{:#x}, expected {:#x}; copy the file again from where it was written",
                path_, begun_, header.header_crc32, expected);
  }
  const bool deflated = (header.flags & kDeflated) != 0;
  if (header.stored > kLargestChunk || header.bytes > kLargestChunk ||
      (!deflated && header.stored != header.bytes)) {
    return fail(NRT_INVALID,
                "the profile '{}' is damaged: its chunk at byte {} says that it holds {} bytes in "
                "{}",
                path_, begun_, header.bytes, header.stored);
  }
  return {};
}

Result<std::optional<Chunk>> TraceFileReader::contents_of(const ChunkHeader& header) {
  const uint64_t place = begun_;
  const bool deflated = (header.flags & kDeflated) != 0;
  Chunk chunk{.kind = static_cast<ChunkKind>(header.kind),
              .place = {.part = header.part, .index = header.index},
              .bytes = {}};
  // In pieces: the size is only what the file says.
  std::vector<uint8_t>& stored = deflated ? stored_ : chunk.bytes;
  stored.clear();
  for (uint64_t left = header.stored; left != 0;) {
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(left, 1u << 20));
    const size_t before = stored.size();
    stored.resize(before + piece);
    NEURON_TRY(read, get(stored.data() + before, piece));
    cut_ = read != piece;
    if (cut_) return std::optional<Chunk>();
    left -= piece;
  }
  if (deflated) {
    // Deflate shrinks to a thousandth at best.
    if (header.bytes / 1100 > header.stored) {
      return fail(NRT_INVALID,
                  "the profile '{}' is damaged: its chunk at byte {} cannot hold {} "
                  "bytes in {}",
                  path_, place, header.bytes, header.stored);
    }
    chunk.bytes.resize(header.bytes);
    uLongf size = header.bytes;
    const int result = uncompress(chunk.bytes.data(), &size, stored_.data(), stored_.size());
    if (result != Z_OK || size != header.bytes) {
      return fail(NRT_INVALID,
                  "the profile '{}' is damaged: its chunk at byte {} cannot be inflated", path_,
                  place);
    }
  }
  if (base::crc32(chunk.bytes) != header.crc32) {
    return fail(NRT_INVALID,
                "the profile '{}' is damaged: the contents of its chunk at byte {} do not have the "
                "checksum that it names",
                path_, place);
  }
  return std::optional<Chunk>(std::move(chunk));
}

}  // namespace neuron::ntff
