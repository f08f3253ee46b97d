// SPDX-License-Identifier: Apache-2.0
// Instructions that a sequencer executes itself: control (halt, write, notify, complete, mode) and
// flow (registers, branches, loops, calls, loads and stores).
//
// Callers: InstructionIssue, by the holder of the core, with registers substituted. Fails: by the
// fault that execute_control and execute_flow return.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_CONTROL_FLOW_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_CONTROL_FLOW_H

#include <cstdint>

#include "driver/emulator/neuroncore/group/execution.h"
#include "driver/emulator/neuroncore/group/issue.h"
#include "driver/emulator/neuroncore/group/strict_observer.h"

namespace neuron::core {

class ControlFlow {
 public:
  ControlFlow(CoreState& state, Execution& execution, StrictObserver& strict)
      : state_(state), execution_(execution), strict_(strict) {}

  Fault execute_control(Issue& issue);
  Fault execute_flow(Issue& issue);
  // Moves to the next program counter; at the end of a hardware loop's body, to that of the next
  // iteration.
  static void advance(Sequencer& s, uint32_t next_pc);

 private:
  Fault store_words(Issue& issue, uint32_t value);
  Fault load(Issue& issue, uint32_t& rd);
  Fault jump(Issue& issue, bool leaves_loops);
  Fault check_loop_entry(Issue& issue);
  Fault enter_loop(Issue& issue);
  Fault identify(Issue& issue, uint32_t what);
  Fault complete(Issue& issue, uint32_t status);

  CoreState& state_;
  Execution& execution_;
  StrictObserver& strict_;
};

}  // namespace neuron::core

#endif
