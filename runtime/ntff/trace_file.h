// SPDX-License-Identifier: Apache-2.0
//
// The profile of a model's executions as a file (NTFF), of this project's own making: the file
// names are those of the original, whose format is not public.
//
// A file is a header and chunks behind each other, so it is written as events come, and read
// without holding it in memory. Each chunk says its kind, its size and the CRC of its contents,
// which may be deflated; from version 3 on, a CRC of what it says is with it. Contents:
//   kModel      JSON: what was profiled, where, and the names of semaphores, queues and files
//   kCode       the 128-byte instructions of an engine, as they lay in HBM
//   kLines      struct TraceLine: which debug id is which line
//   kEntries    struct neuron_notification, as the device wrote them into one ring; rings from
//               kCollectiveRing on are those of the CC cores
//   kExecution  JSON: one execution, whose entries are all in front of this chunk; with "same_as"
//               (from version 2 on), one whose entries and counts are those of that execution
//   kSystem     JSON: events and samples of a host (files of inspect sessions)
//   kStream     JSON: the collectives of a CC core
//   kNotes      struct StreamNote: what each instruction of a CC core is for
//   kWaits      struct StreamWait: two for each instruction of a CC core
//   kPackets    struct TracePacket: what lies in one ring of descriptors, which is that of the
//               index (queue << 8 | DMA engine)
//   kEnd        JSON: totals. A file without it was not ended, and is read up to where it ends.
//               With "cut", it ends early, for this reason, behind its last whole execution.
// A later version may add kinds, which older readers skip, and keys, which they ignore.
// Callers: the runtime's profiles, neuron-profile. Thread-safe: one thread a file. Owns the file's
// descriptor. Fails with NRT_INVALID and a sentence that names the file and the place in it.
#ifndef RUNTIME_NTFF_TRACE_FILE_H
#define RUNTIME_NTFF_TRACE_FILE_H

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "runtime/base/error.h"

struct z_stream_s;

namespace neuron::ntff {

struct ChunkHeader;

inline constexpr uint32_t kVersion = 3;

enum class ChunkKind : uint32_t {
  kModel = 1,
  kCode = 2,
  kLines = 3,
  kEntries = 4,
  kExecution = 5,
  kEnd = 6,
  kSystem = 7,
  kStream = 8,
  kNotes = 9,
  kWaits = 10,
  kPackets = 11,
};

// The ring of CC core k of the core is kCollectiveRing + k.
inline constexpr uint32_t kCollectiveRing = 16;
inline constexpr uint32_t kMostStreams = 4;

// Sets of kinds. Kinds of later versions are in but(), not in only().
constexpr uint32_t only(ChunkKind kind) { return 1u << static_cast<uint32_t>(kind); }
constexpr uint32_t but(ChunkKind kind) { return ~only(kind); }

// Which physical core of the virtual one a chunk is of, and which engine or ring of it.
struct ChunkPlace {
  uint32_t part = 0;
  uint32_t index = 0;
};

struct TraceLine {
  uint32_t debug = 0;
  uint32_t line = 0;
  uint32_t file = 0;  // index into "files" of the model's chunk
  uint32_t column = 0;
};

// What an instruction of a CC core is for; the numbers are those of ccom_device_note_t.
struct StreamNote {
  uint32_t action = 0;
  uint32_t wait = 0;
  uint32_t collective = 0;
  uint32_t peer = 0;
  uint32_t wait_peer = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
};

// What such an instruction waits for; the numbers are those of ccom_device_waiting_t.
struct StreamWait {
  uint32_t wait = 0;
  uint32_t peer = 0;
  uint32_t semaphore = 0;
  uint32_t reserved = 0;
  uint64_t bytes = 0;  // that the peer's message brings
};

// A packet of descriptors: what it reads and writes, one piece each. A ring holds its packets in
// the order in which they move, and begins with the first one again behind the last.
struct TracePacket {
  static constexpr uint32_t kNone = UINT32_MAX;  // no variable, or more than one piece

  uint32_t bytes = 0;     // that it reads
  uint32_t from = kNone;  // index into "variables" of the model's chunk
  uint32_t to = kNone;
  uint32_t semaphore = kNone;  // that it adds 1 to instead
  uint64_t from_offset = 0;    // in the variable
  uint64_t to_offset = 0;
};

struct Chunk {
  ChunkKind kind = ChunkKind::kModel;  // or a number that this version does not know
  ChunkPlace place;
  std::vector<uint8_t> bytes;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

class TraceFileWriter {
 public:
  enum class Existing : uint8_t { kReplaced, kRefused };
  // Fails for a file that another writer has, under whatever name. A file of which not even the
  // first bytes can be written is removed.
  static runtime::Result<TraceFileWriter> create(const std::string& path,
                                                 Existing existing = Existing::kReplaced);

  // Keeps the first failure, which every later call returns. Small chunks reach the file together,
  // a few at a time; finish() puts the rest there, and so does the destructor, silently. Of a
  // process that is killed, the file has what came before the last finish(), the first whole
  // execution behind it, and of the later ones those that a tenth of a second or more has passed
  // since.
  runtime::Result<void> write(ChunkKind kind, ChunkPlace place, std::span<const uint8_t> bytes);
  runtime::Result<void> write(ChunkKind kind, ChunkPlace place, std::string_view text) {
    return write(kind, place,
                 std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
  }
  //
  // When the disk is full, what is behind the last whole execution goes, and an end says why: what
  // was recorded before can be read, and nobody takes the file for one that is still written. A
  // file without a whole execution is removed, since it tells nothing and takes room.
  runtime::Result<void> finish();
  // True for the first who asks after a failure: who tells the operator of it.
  bool failure_is_news() { return !state_ && !std::exchange(told_, true); }
  TraceFileWriter(TraceFileWriter&&) = default;
  TraceFileWriter& operator=(TraceFileWriter&&) = delete;
  ~TraceFileWriter() { (void)finish(); }
  // Removes the file, of which nothing is wanted. Later writes fail.
  void discard();
  const std::string& path() const { return path_; }
  uint64_t bytes_written() const { return written_; }

 private:
  TraceFileWriter(std::string path, base::FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}
  void put(std::span<const uint8_t> bytes) {
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
    written_ += bytes.size();
  }

  std::string path_;
  base::FileDescriptor file_;
  // Makes deflated_ of the bytes; false if that does not make them fewer.
  bool deflate(std::span<const uint8_t> bytes);
  // Writing has failed with this errno, and so many bytes are left.
  void give_up(int reason, uint64_t left);
  // False: the file cannot be marked.
  bool end_early(int reason, uint64_t whole);

  std::vector<uint8_t> waiting_;  // has not reached the file yet
  std::vector<uint8_t> deflated_;
  // One for all chunks: making it takes longer than deflating a small one.
  struct EndDeflation {
    void operator()(z_stream_s* stream) const;
  };
  std::unique_ptr<z_stream_s, EndDeflation> deflation_;
  runtime::Result<void> state_;
  uint64_t written_ = 0;
  uint64_t reached_ = 0;  // bytes that are in the file
  std::chrono::steady_clock::time_point flushed_;
  std::vector<uint64_t> ends_;  // of executions: places in the file
  bool told_ = false;
};

class TraceFileReader {
 public:
  // Refuses a file that is none of this project's, or of a later major version.
  static runtime::Result<TraceFileReader> open(const std::string& path);
  static runtime::Result<TraceFileReader> read(base::FileDescriptor file, std::string path);

  // The next chunk of one of the kinds, others are passed over; nothing at the end of the file. A
  // file that ends within a chunk ends before it, and is cut().
  runtime::Result<std::optional<Chunk>> next(uint32_t kinds = UINT32_MAX);
  bool cut() const { return cut_; }
  // The same without its contents, which chunk_at() gives.
  struct Found {
    ChunkKind kind = ChunkKind::kModel;
    ChunkPlace place;
    uint64_t at = 0;  // byte of the file
  };
  runtime::Result<std::optional<Found>> find(uint32_t kinds);
  // The chunk at a byte that find() has named. It is read wherever the file was read last, so that
  // next() and find() need a rewind() behind it.
  runtime::Result<std::optional<Chunk>> chunk_at(uint64_t at);
  // From the first chunk again.
  runtime::Result<void> rewind();
  uint32_t version() const { return version_; }
  const std::string& path() const { return path_; }
  // The byte that it reads next, and of how many.
  uint64_t at() const { return at_; }
  uint64_t size() const { return size_; }

 private:
  TraceFileReader(base::FileDescriptor file, std::string path)
      : path_(std::move(path)), file_(std::move(file)) {}
  // False: the file ends before that.
  runtime::Result<bool> skip(uint64_t bytes);
  // False: there is none behind the present place.
  runtime::Result<bool> find_header(uint32_t kinds, ChunkHeader& header);
  // Refuses the header of a chunk that no writer has written.
  runtime::Result<void> check(const ChunkHeader& header) const;
  runtime::Result<std::optional<Chunk>> contents_of(const ChunkHeader& header);
  // Fewer than `size` only at the end of the file.
  runtime::Result<size_t> get(void* to, size_t size);

  std::string path_;
  base::FileDescriptor file_;
  uint32_t version_ = 0;
  uint64_t size_ = 0;
  uint64_t at_ = 0;
  uint64_t begun_ = 0;  // where the last chunk begins
  bool cut_ = false;
  std::vector<uint8_t> stored_;
};

}  // namespace neuron::ntff

#endif
