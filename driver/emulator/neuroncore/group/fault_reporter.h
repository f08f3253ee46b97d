// SPDX-License-Identifier: Apache-2.0
// Faults and warnings of sequencers: latch, stop, notify, record.
//
// A fault stops its sequencer, and the others too if the core's mode says so. It is latched in the
// exception registers, posted as an error notification and ends the execution. A warning is only
// posted. Callers: the holder of the core. Cannot fail.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_FAULT_REPORTER_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_FAULT_REPORTER_H

#include <array>
#include <cstdint>

#include "driver/emulator/neuroncore/group/core_state.h"
#include "driver/emulator/neuroncore/group/execution.h"

namespace neuron::core {

class FaultReporter {
 public:
  FaultReporter(CoreState& state, Execution& execution) : state_(state), execution_(execution) {}

  // Raises a fault of the instruction at `pc`; debug and opcode are 0 if the fault concerns no
  // instruction.
  void raise(Sequencer& s, const Fault& fault, uint32_t pc, uint32_t debug, uint16_t opcode,
             ModelTime now);
  void warn(Sequencer& s, neuron_fault code, uint32_t pc, uint32_t debug, uint16_t opcode,
            std::array<uint32_t, 3> info, ModelTime now);

 private:
  void stop_others(const Sequencer& except);

  CoreState& state_;
  Execution& execution_;
};

}  // namespace neuron::core

#endif
