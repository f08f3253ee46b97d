// SPDX-License-Identifier: Apache-2.0
//
// A profile: the programs that it is of, its executions, and the events of each.
//
// Concepts: a program has a Part for each physical core. The events of an execution are read from
// the file each time that somebody visits them, so a profile of any size takes the same memory.
// Events come ring by ring, a few thousand of one ring and then of the next: those of one engine or
// of one DMA engine are in order, those of different ones are not. Times are picoseconds of the
// device since the doorbell of the execution. Callers: programs, one thread. Owns the file. Fails:
// NRT_INVALID, with the sentence of the file.
#ifndef TOOLS_NEURON_PROFILE_TRACE_PROFILE_H
#define TOOLS_NEURON_PROFILE_TRACE_PROFILE_H

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hw/notification.h"
#include "tools/neuron-profile/trace/executions.h"
#include "tools/neuron-profile/trace/program.h"
#include "tools/neuron-profile/trace/ring_merge.h"

namespace neuron::profile {

inline constexpr uint32_t kNoCell = UINT32_MAX;
inline constexpr uint8_t kNoStream = UINT8_MAX;

// An instruction that an engine has executed.
struct InstructionEvent {
  uint64_t begin = 0;  // the unit begins
  uint64_t end = 0;    // the result is visible
  uint64_t wait = 0;   // of the sequencer, before it
  uint64_t wait_end = 0;
  uint32_t wait_cell = kNoCell;  // what it waited for last
  uint32_t pc = 0;
  uint32_t debug = 0;
  uint32_t elements = 0;  // of each partition
  uint16_t opcode = 0;
  uint8_t engine = 0;
  uint8_t speed = 1;  // 2 or 4: in a performance mode that makes it so many times as fast
};

// An instruction that a CC core has executed. Program::note() says what it is for.
struct StreamEvent {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t wait = 0;  // before it
  uint64_t wait_end = 0;
  uint32_t wait_cell = kNoCell;  // the semaphore of the CC core that it waited for last
  uint32_t pc = 0;
  uint16_t opcode = 0;
  uint8_t stream = 0;  // number of the CC core

  // What it waited for was seen then; without a wait, when it began.
  uint64_t seen() const { return wait == 0 ? begin : wait_end; }
  uint64_t begin_of_wait() const { return seen() - std::min(wait, seen()); }
};

// Neighbouring descriptors of one queue of one DMA engine.
struct TransferEvent {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes = 0;
  uint32_t pc = 0;  // the instruction that rang the doorbell, or made the descriptors
  uint32_t debug = 0;
  uint16_t opcode = 0;
  uint8_t trigger = 0;  // its engine
  uint8_t dma_engine = 0;
  uint8_t queue = 0;
  uint8_t descriptors = 0;  // those that update semaphores do not count
  uint8_t reads = 0;        // NEURON_PLACE_*
  uint8_t writes = 0;
  uint8_t stream = kNoStream;  // of the CC core that rang
};

// A semaphore or event that has changed.
struct UpdateEvent {
  uint64_t time = 0;
  uint32_t cell = 0;  // index; bit 8: an event
  uint32_t before = 0;
  uint32_t after = 0;
  uint32_t pc = 0;     // of an engine's instruction
  uint8_t source = 0;  // enum neuron_engine; NEURON_ENGINE_DMA: dma_engine and queue say which
  uint8_t dma_engine = 0;
  uint8_t queue = 0;
  uint8_t operation = 0;  // enum neuron_update_operation, of an engine's instruction
  bool at_complete = false;
};

class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void instruction(const InstructionEvent&) {}
  virtual void stream_instruction(const StreamEvent&) {}
  virtual void transfer(const TransferEvent&) {}
  virtual void update(const UpdateEvent&) {}
  // So many events of the ring are missing here.
  virtual void gap(uint32_t slot, uint64_t lost) {
    (void)slot;
    (void)lost;
  }
};

// One physical core of the virtual one.
struct Part {
  Program program;
  Executions executions;
};

class Profile {
 public:
  // Told how far a reading is: once from 0 to the size for each, and never back within one.
  using Watcher = std::function<void(uint64_t at, uint64_t size)>;

  // The watcher is told of every reading, beginning with this one.
  static Result<Profile> open(const std::string& path, Watcher watcher = {});
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }
  // Whether a file can be taken for a profile: its beginning is that of one.
  static bool is_one(const std::string& path) {
    return ntff::TraceFileReader::open(path).has_value();
  }
  static Result<Profile> read(base::FileDescriptor descriptor, std::string path);

  const std::string& path() const { return file_.path(); }
  const std::vector<Part>& parts() const { return parts_; }
  // False: nothing tells that the profile was ended; what it has is shown.
  bool ended() const { return ended_; }
  // Why the file ends before the profile did: "No space left on device"; empty if it does not.
  const std::string& ends_early() const { return ends_early_; }
  uint64_t lost() const { return lost_; }
  uint32_t version() const { return file_.version(); }  // of the file's format

  // Events of the execution with this index of the part.
  Result<void> visit(uint32_t part, size_t execution, Visitor& visitor);
  // The same in the order of their times, those of all rings together: an instruction and a
  // transfer when they end. Holds a chunk of each ring.
  Result<void> visit_in_order(uint32_t part, size_t execution, Visitor& visitor);

 private:
  explicit Profile(ntff::TraceFileReader file) : file_(std::move(file)) {}
  void tell_place(uint64_t at) const {
    if (watcher_) watcher_(at, file_.size());
  }
  Result<void> scan();
  Result<void> check_size(const ntff::Chunk& chunk);
  Result<RingMerge> rings_of(uint32_t part, size_t execution);
  Result<void> take_stream(Program& program, const ntff::Chunk& chunk);

  ntff::TraceFileReader file_;
  Watcher watcher_;
  std::vector<Part> parts_;
  bool ended_ = false;
  std::string ends_early_;
  uint64_t lost_ = 0;
  uint64_t code_bytes_ = 0;
};

}  // namespace neuron::profile

#endif
