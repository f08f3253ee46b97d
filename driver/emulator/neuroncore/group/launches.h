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
  // Called before an access from outside is applied: an access that finds the group quiescent
  // starts a new count of time.
  void begin_external();
  // Called at quiescence. False: no launch is held, or an execution is in progress.
  bool release_held();
  // Starts all times again from 0. Nothing may be in flight.
  void restart_time();
  void reset() { held_ = 0; }

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
};

}  // namespace neuron::core

#endif
