// SPDX-License-Identifier: Apache-2.0
// Which actor of an execution group acts next, and the group's model time.
//
// Concepts: actors are the sequencers (engines, then CC cores) and, for each DMA engine, its
// ordinary queues and its queue of collectives. Each actor has the time of its next event, or
// kNever. The actor with the smallest time acts next; of two with the same time, the one with the
// smaller number. A group is quiescent when no actor has a time. Callers: the holder of the core;
// is_runnable and is_deadlocked: any thread. Cannot fail, allocates nothing.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_SCHEDULER_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_SCHEDULER_H

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "driver/emulator/chip/chip_layout.h"
#include "driver/emulator/neuroncore/sequencer/sequencer.h"

namespace neuron::core {

inline constexpr unsigned kEngines = NEURON_CORE_ENGINES;  // with units
inline constexpr unsigned kSequencers = kEngines + chip::kMaxCcPerCore;
inline constexpr unsigned kDmaEngines = chip::kEnginesPerCore;
// The queue of collectives has a time of its own. So an engine that waits for another chip never
// competes for a DMA engine with one that does not, in an order that depends on the host.
inline constexpr unsigned kDmaActors = 2 * kDmaEngines;
constexpr unsigned dma_actor(unsigned engine, unsigned queue) {
  return engine + (queue == NEURON_DMA_QUEUE_COLLECTIVES ? kDmaEngines : 0);
}

class Scheduler {
 public:
  // Actors [0, kSequencers) are sequencers, those behind them DMA actors.
  struct Event {
    unsigned actor;
    ModelTime time;
  };

  Scheduler() { times_.fill(kNever); }

  void schedule(const Sequencer& s) { times_[s.place.actor] = s.next_event(); }
  void schedule_dma(unsigned index, ModelTime time) {
    times_[kSequencers + index] = time;
    if (time == kNever) {
      dma_times_ &= ~(1u << index);
    } else {
      dma_times_ |= 1u << index;
    }
  }
  // The next event; its time is kNever if the group is quiescent.
  Event next() const {
    Event next{0, times_[0]};
    for (unsigned e = 1; e < sequencers_in_use_; ++e) {
      if (times_[e] < next.time) next = {e, times_[e]};
    }
    for (uint32_t mask = dma_times_; mask != 0; mask &= mask - 1) {
      const unsigned d = kSequencers + static_cast<unsigned>(std::countr_zero(mask));
      if (times_[d] < next.time) next = {d, times_[d]};
    }
    return next;
  }

  // A DMA engine has an event.
  bool is_dma_at_work() const { return dma_times_ != 0; }

  ModelTime now() const { return now_; }
  // The actor whose event this is.
  unsigned acting() const { return acting_; }
  void advance(unsigned actor, ModelTime time) {
    acting_ = actor;
    now_ = time;
    time_runs_ = true;
  }
  // Starts time again from 0. False: no event has happened since the last restart.
  bool restart() {
    if (!time_runs_) return false;
    time_runs_ = false;
    now_ = 0;
    return true;
  }
  // Removes all times; CC cores take part again once they are started.
  void clear() {
    times_.fill(kNever);
    dma_times_ = 0;
    sequencers_in_use_ = kEngines;
  }

  // Engines always take part; a CC core does once it was started.
  unsigned sequencers_in_use() const { return sequencers_in_use_; }
  void include(const Sequencer& s) {
    sequencers_in_use_ = std::max(sequencers_in_use_, s.place.actor + 1);
  }

  // Acquire: pairs with the release in set_runnable() and set_quiescent().
  bool is_runnable() const { return runnable_.load(std::memory_order_acquire); }
  bool is_deadlocked() const { return deadlocked_.load(std::memory_order_acquire); }
  void set_runnable() {
    if (runnable_.load(std::memory_order_relaxed)) return;
    // Release: pairs with the acquire in is_runnable().
    runnable_.store(true, std::memory_order_release);
    deadlocked_.store(false, std::memory_order_relaxed);
  }
  // Release: pairs with is_runnable() and is_deadlocked(), so that a thread that sees the group
  // quiescent also sees what the group has written.
  void set_quiescent(bool deadlocked) {
    deadlocked_.store(deadlocked, std::memory_order_release);
    runnable_.store(false, std::memory_order_release);
  }

  // Adds host work that an event cost beside itself, in units of one event.
  void spend(uint32_t effort) { effort_ += effort; }
  // Called for each event; true once for kEffortPerLook units of work: then the runner looks at the
  // host's clock.
  bool is_time_to_look() {
    if (++effort_ < kEffortPerLook) [[likely]] {
      return false;
    }
    effort_ = 0;
    return true;
  }

 private:
  static constexpr uint32_t kEffortPerLook = 1024;

  std::array<ModelTime, kSequencers + kDmaActors> times_;  // next event of each actor
  uint32_t dma_times_ = 0;                                 // bit d: DMA actor d has a time
  unsigned sequencers_in_use_ = kEngines;
  uint32_t effort_ = 0;  // since the last look
  ModelTime now_ = 0;
  unsigned acting_ = 0;
  bool time_runs_ = false;  // an event has happened since restart()
  std::atomic<bool> runnable_ = false;
  std::atomic<bool> deadlocked_ = false;
};

}  // namespace neuron::core

#endif
