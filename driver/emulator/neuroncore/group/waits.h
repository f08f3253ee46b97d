// SPDX-License-Identifier: Apache-2.0
// The waits of sequencers for semaphores and events: which hold, since when, and which sequencers
// to wake.
//
// Concepts: a change by another group may have a model time before or behind this group's own time;
// arrival times (sequencer/arrival_times.h) say from when a wait has held. A sequencer resumes at
// that time, never before it began to wait. Callers: the holder of the core. Cannot fail, allocates
// nothing.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_WAITS_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_WAITS_H

#include <array>
#include <cstdint>

#include "driver/emulator/neuroncore/group/core_state.h"

namespace neuron::core {

class Waits {
 public:
  explicit Waits(CoreState& state) : state_(state) {}

  bool holds(const Sequencer& s, const isa::Wait& wait) const;
  bool all_hold(const Sequencer& s, const isa::Instruction& i) const {
    return holds(s, i.wait[0]) && holds(s, i.wait[1]);
  }
  // True if the waits hold only because the host has delivered a peer's update before its model
  // time. The sequencer then waits until that time.
  bool must_wait_for_arrival(Sequencer& s, const CachedInstruction& entry, ModelTime now);

  // Marks the sequencer as waiting from now on, unless it waits already.
  static void begin_waiting(Sequencer& s, ModelTime now) {
    if (s.state == NEURON_STATE_WAITING) return;
    s.state = NEURON_STATE_WAITING;
    s.wait_since = now;
  }
  // begin(): the sequencer waits for the cells of its instruction. end(): it no longer does.
  void begin(Sequencer& s, const CachedInstruction& entry, ModelTime now);
  void end(Sequencer& s, const isa::Instruction& i);

  // Of the waits of an instruction for which the sequencer has waited: the number of the cell that
  // held last (bit 8: an event).
  static uint32_t last_cell(const Sequencer& s, const isa::Instruction& i);

  // A cell of the core (block 0) or of CC core block - 1 has changed at `now`, which may lie before
  // the group's own time.
  void wake(unsigned block, bool event, unsigned index, ModelTime now);

  // Which engines wait for a cell, bit per engine, as begin() and end() count them.
  uint8_t waiters(bool event, unsigned index) const {
    return event ? event_waiters_[index] : semaphore_waiters_[index];
  }
  void set_waiters(bool event, unsigned index, uint8_t engines) {
    (event ? event_waiters_ : semaphore_waiters_)[index] = engines;
  }

  // Whether a sequencer waits for what only another group can do.
  bool await_peers() const;
  void reset();

 private:
  // Zero: for longer than `now`, or always.
  Stamp held_from(const Sequencer& s, const isa::Wait& wait, ModelTime now) const;
  void wake_one(Sequencer& s, bool event, unsigned index, ModelTime now);
  uint8_t& waiters_of(const isa::Wait& wait) {
    return wait.event ? event_waiters_[wait.index] : semaphore_waiters_[wait.index];
  }

  CoreState& state_;
  // Bit per engine. CC cores are not included: each waits for cells of its own.
  std::array<uint8_t, NEURON_SEMAPHORES> semaphore_waiters_{};
  std::array<uint8_t, NEURON_EVENTS> event_waiters_{};
};

}  // namespace neuron::core

#endif
