// SPDX-License-Identifier: Apache-2.0
// Decides when launches, and model time with them, begin.
//
// A launch is an increment of semaphore 7 of the core from outside. One that finds the group
// quiescent, outside an execution, starts a new count of time at 0. A launch that finds the group
// busy is held. Held launches are released one by one when the group is quiescent, so each is timed
// from 0.
// Callers: the holder of the core. Cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_LAUNCHES_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_LAUNCHES_H

#include <cstdint>
#include <utility>

#include "driver/emulator/neuroncore/group/dma_actors.h"
#include "driver/emulator/neuroncore/group/semaphore_updates.h"

namespace neuron::core {

class Launches {
 public:
  Launches(CoreState& state, const Execution& execution, const Waits& waits,
           SemaphoreUpdates& updates, DmaActors& dma)
      : state_(state), execution_(execution), waits_(waits), updates_(updates), dma_(dma) {}

  // A write to semaphores, which may be a launch if it does not come from the group itself; see
  // SemaphoreUpdates::write.
  void write_semaphore(unsigned block, uint64_t at, uint32_t value, const chip::Access& access,
                       UpdateSource source);
  // Whether such a write from outside is a launch that waits: nothing else comes of it now.
  bool holds(int block, uint64_t at, uint32_t value) const;
  // Called before an access from outside is applied: an access that finds the group quiescent
  // starts a new count of time.
  void begin_external();
  // Called at quiescence. False: no launch is held, or an execution is in progress.
  bool release_held();
  // Starts all times again from 0. Nothing may be in flight.
  void restart_time();
  // True once for each launch: it has begun, and none of its events has happened.
  bool take_begun() { return std::exchange(begun_, false); }
  void reset() {
    held_ = 0;
    begun_ = false;
  }

 private:
  bool is_busy() const { return execution_.in_progress() || state_.scheduler.is_runnable(); }
  void begin();
  void hold(uint32_t launches);

  CoreState& state_;
  const Execution& execution_;
  const Waits& waits_;
  SemaphoreUpdates& updates_;
  DmaActors& dma_;
  uint32_t held_ = 0;
  bool begun_ = false;
};

}  // namespace neuron::core

#endif
