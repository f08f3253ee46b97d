// SPDX-License-Identifier: Apache-2.0
// One rank's access to what runs collectives: memory of the host, the network, or a device.
//
// Concepts: enter() once for each phase (communicators of its groups), prepare() once for each step
// (buffers), then execute() as often as wanted: every call of the step once, blocks at the same
// time. Iterations take sets of buffers in turn; a result stays where it is until its set is used
// again. Callers: rank_run, in the rank's thread; abort() from any. Owns: communicators, buffers.
// Fails with the library's sentence; CCOM_INVALID and CCOM_UNSUPPORTED leave the rank usable,
// everything else does not.
#ifndef TOOLS_NCCOM_TEST_RUN_PARTICIPANT_H
#define TOOLS_NCCOM_TEST_RUN_PARTICIPANT_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/nccom-test/run/case.h"
#include "tools/nccom-test/run/job.h"

namespace neuron::nccom {

// The part of a step that one rank has in one block.
struct BlockCase {
  bool takes_part = false;
  uint32_t place = 0;           // in its group
  std::vector<uint32_t> ranks;  // of the group, in the world
  uint32_t stream = 0;
  uint32_t repetitions = 1;  // operations one after another in an iteration
  bool in_place = false;
  Case what;  // of a rank that does not take part: as the first of a group has it
};

// The buffers of one call among those that a participant holds at the same time.
struct Slot {
  size_t block = 0;
  size_t work = 0;
  size_t set = 0;           // iteration i has set i % sets()
  uint32_t repetition = 0;  // of a call that the iteration repeats
};

class Participant {
 public:
  virtual ~Participant() = default;

  virtual uint32_t rank() const = 0;
  // In the rank's thread: waits for the others, at most the time limit.
  virtual ccom::Result<void> join() = 0;
  virtual ccom::Result<void> enter(const Phase& phase) = 0;
  // The blocks stay as they are until the next prepare().
  virtual ccom::Result<void> prepare(const std::vector<BlockCase>& blocks) = 0;
  // Sets of buffers, the same number on every rank.
  virtual size_t sets() const = 0;
  // Results that an iteration leaves of each call of a block: one for each repetition, or 1, that
  // of the last repetition.
  virtual uint32_t results_of(size_t block) const = 0;
  // Buffers of all repetitions; the output is filled with kUntouched where it is not input.
  virtual ccom::Result<void> write(const Slot& slot, std::span<const std::byte> input) = 0;
  // For the next use of a set: afterwards no result can be taken for that of an earlier operation.
  // With inputs_in_turn() above 1 that needs another input than the last one.
  virtual ccom::Result<void> renew(const Slot& slot, std::span<const std::byte> input) = 0;
  virtual uint32_t inputs_in_turn() const = 0;
  // Valid until the next call for the participant.
  virtual ccom::Result<std::span<const std::byte>> result(const Slot& slot) = 0;
  virtual ccom::Result<void> barrier() = 0;
  // True if a measured time contains the wait for a rank that begins later.
  virtual bool waits_are_measured() const = 0;
  // `iteration`: counted from 0 in a step. `times_us`: by block.
  virtual ccom::Result<void> execute(size_t iteration, std::vector<double>& times_us) = 0;
  virtual std::string algorithm(size_t block) = 0;
  virtual void abort() = 0;

  // Rises with each operation that has ended and each buffer that was written or read: a rank whose
  // count rises gets on. From any thread.
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }

 protected:
  // In the rank's thread, which alone writes: that costs no more than a plain addition.
  void get_on() { progress_.store(progress() + 1, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> progress_{0};
};

}  // namespace neuron::nccom

#endif
