// SPDX-License-Identifier: Apache-2.0
// All changes of a core's semaphores and events, and what follows from each: arrival time,
// notification, order for strict mode, and the wake-up of waiters.
//
// Only the thread that holds the core changes its semaphores; other threads put a change into the
// mailbox. Callers: the holder of the core. Fails: a refused change posts a notification and is a
// fault of the sequencer that asked for it.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_SEMAPHORE_UPDATES_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_SEMAPHORE_UPDATES_H

#include <cstdint>

#include "driver/emulator/neuroncore/group/fault_reporter.h"
#include "driver/emulator/neuroncore/group/host_gate.h"
#include "driver/emulator/neuroncore/group/strict_observer.h"
#include "driver/emulator/neuroncore/group/waits.h"

namespace neuron::core {

// Where a write to semaphores comes from: an actor of the group, at the time of its event; another
// group, with its arrival time; anybody else, without a time.
enum class UpdateSource : uint8_t { kGroup, kOtherGroup, kOutside };

class SemaphoreUpdates {
 public:
  SemaphoreUpdates(CoreState& state, const HostGate& gate, Execution& execution,
                   FaultReporter& faults, StrictObserver& strict, Waits& waits)
      : state_(state),
        gate_(gate),
        execution_(execution),
        faults_(faults),
        strict_(strict),
        waits_(waits) {}

  // A write to offset `at` of the semaphores of the core (block 0) or of CC core block - 1.
  void write(unsigned block, uint64_t at, uint32_t value, const chip::Access& access,
             UpdateSource source);
  // Applies an update of an instruction of `s`. False: it was refused, and the fault is raised.
  bool apply(Sequencer& s, const PendingUpdate& update, ModelTime now);

 private:
  void note(ArrivalTimes& arrivals, neuron_update_operation operation,
            const chip::SemaphoreChange& change, uint32_t operand, const Stamp& stamp);
  void refuse(unsigned block, neuron_fault fault, const chip::SemaphoreChange& change,
              const chip::Access& access);

  CoreState& state_;
  const HostGate& gate_;
  Execution& execution_;
  FaultReporter& faults_;
  StrictObserver& strict_;
  Waits& waits_;
};

}  // namespace neuron::core

#endif
