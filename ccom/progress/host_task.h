// SPDX-License-Identifier: Apache-2.0
// One collective of one rank in host memory, as a state machine that advance() drives.
//
// Concepts: a lane is a stream of the executor: its words in all arenas, and the number of its last
// collective. Tasks of a lane run one after the other. advance() never blocks. It looks for missing
// ranks only when a caller asks. Callers: HostExecutor. Threads: the executor's. Owns: nothing of
// its program or buffers. Fails: kFailed, with the sentence in failure().
#ifndef CCOM_PROGRESS_HOST_TASK_H
#define CCOM_PROGRESS_HOST_TASK_H

#include <optional>
#include <vector>

#include "ccom/progress/executor.h"
#include "ccom/progress/host_control.h"
#include "ccom/progress/host_program.h"

namespace neuron::ccom {

struct HostLane {
  const ExecutorContext* context = nullptr;
  bool one_process = false;  // addresses are valid on all ranks
  HostStream* own = nullptr;
  std::vector<HostStream*> streams;  // by rank
  std::byte* staging = nullptr;      // kStagingBytes in the own arena
  uint64_t number = 0;               // of the last collective that began
  uint64_t everybody_done = 0;       // the last collective that all others have done

  // So many that looking up each millisecond would be all that a few processors do: sleepers sleep
  // longer, and are woken for certain.
  static constexpr size_t kMany = 64;
  bool many() const { return streams.size() > kMany; }
  // Whether the slots of collective `next` may be written.
  bool slot_free(uint64_t next);
  void wake();  // called after writing a word of `own` that others wait for
};

class HostTask {
 public:
  explicit HostTask(HostLane& lane);

  void begin(const HostProgram& program, const Operands& operands, const Signature& signature);
  // Advances as far as possible. Returns kDone once.
  Outcome advance();
  // Whether something happened since the last call of moved().
  bool moved() {
    const bool moved = moved_;
    moved_ = false;
    return moved;
  }

  // Slow, for reports.
  std::vector<Rank> awaited() const;
  // The error about a rank that posted another signature under this number, if there is one.
  std::optional<Error> disagreement() const;
  // The error about a rank that left and never began what this one waits for, if there is one.
  std::optional<Error> desertion() const;
  const Signature& signature() const { return signature_; }
  const Error& failure() const { return failure_; }
  Outcome fail_with(Error error);
  uint64_t bytes_done() const { return bytes_done_; }
  uint32_t steps_done() const;
  Rank waiting_for() const;  // one of awaited(), or this rank
  const HostLane& lane() const { return lane_; }

 private:
  enum class Phase : uint8_t { kReserve, kDirect, kSteps, kLeave, kOver };
  struct Peer {  // contents of its entry
    bool known = false;
    const std::byte* input = nullptr;
    const std::byte* scratch = nullptr;
    const std::byte* vector = nullptr;
    std::byte* output = nullptr;
  };
  struct Cursor {
    uint32_t next = 0;
    uint32_t passed = 0;     // steps completed
    uint32_t published = 0;  // the count that others see
    bool ended = false;
  };

  bool publish();
  void publish_signature();
  bool prepare_direct(HostEntry& entry);
  bool prepare_steps(HostEntry& entry);
  HostPlace place_of(const void* address, uint64_t bytes) const;
  std::byte* stage(uint64_t bytes);
  std::byte* resolve(Rank peer, HostPlace place, uint64_t bytes);
  // 1: the peer's entry is there and matches; 0: not yet; -1: failed.
  int meet(Rank peer);
  const std::byte* value_of(Rank peer) const;

  // touch() and untouch() enclose reads and writes of others' buffers. False: one of those ranks
  // has failed, and so has this task.
  bool touch();
  void untouch();
  void withdraw();

  Outcome direct();
  Outcome direct_reduce();
  Outcome steps();
  bool run_channel(uint32_t channel, bool& ended);
  bool ready(const Action& action);
  void execute(const Action& action);
  const std::byte* own(const Slice& slice) const;
  std::byte* own_writable(const Slice& slice) const;
  bool left();
  void copy_out(uint64_t bytes);
  void finish();
  bool streaming(uint64_t bytes) const { return bytes >= kStreamingBytes; }

  static constexpr uint64_t kStreamingBytes = 8u << 20;

  HostLane& lane_;
  const HostProgram* program_ = nullptr;
  Operands operands_;
  Signature signature_;
  uint64_t check_ = 0;
  uint64_t number_ = 0;
  Phase phase_ = Phase::kOver;
  bool moved_ = false;
  uint32_t met_ = 0;     // of mesh.from
  uint32_t copied_ = 0;  // of mesh.copies
  uint32_t leave_ = 0;   // in the list of ranks that must have finished
  uint64_t staged_ = 0;
  uint64_t bytes_done_ = 0;
  // The buffers that the task uses: the caller's, or copies of them in the arena.
  const std::byte* input_ = nullptr;
  const std::byte* vector_ = nullptr;
  std::byte* output_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::vector<Peer> peers_;
  std::vector<Cursor> cursors_;
  std::vector<const std::byte*> operands_of_reduce_;
  std::vector<std::byte*> results_;
  Error failure_;
};

}  // namespace neuron::ccom

#endif
