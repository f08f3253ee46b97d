// SPDX-License-Identifier: Apache-2.0
// Commands to sequencers and to the core: start, stop, step, continue, abort, reset.
//
// Callers: CoreRegisters and the core's owner, by the holder of the core. A command that a
// sequencer's state does not allow is refused with a warning. Cannot fail otherwise.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_CORE_CONTROL_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_CORE_CONTROL_H

#include <cstdint>

#include "driver/emulator/neuroncore/group/datapath.h"
#include "driver/emulator/neuroncore/group/launches.h"

namespace neuron::core {

class CoreControl {
 public:
  // The parts that a reset clears beside the core's state.
  struct Parts {
    Execution& execution;
    FaultReporter& faults;
    Waits& waits;
    DmaActors& dma;
    DmaIssue& dma_issue;
    Datapath& datapath;
    Launches& launches;
  };
  CoreControl(CoreState& state, const Parts& parts) : state_(state), to_(parts) {}

  // NEURON_CMD_*, to one sequencer.
  void command(Sequencer& s, unsigned command, ModelTime now);
  // The same for the sequencers in the map, bit per sequencer; a reset of all engines resets the
  // core.
  void command_engines(unsigned code, uint32_t map, ModelTime now);
  // Reports a write to offset `at` of the sequencer's registers that its state does not allow.
  void refuse_write(Sequencer& s, uint32_t at, ModelTime now);
  // States in which a sequencer's configuration may be written.
  static bool configurable(const Sequencer& s) {
    return s.state == NEURON_STATE_IDLE || s.state == NEURON_STATE_HALTED ||
           s.state == NEURON_STATE_STOPPED || s.state == NEURON_STATE_FAULT;
  }
  // Stops the CC cores with the core. Their semaphores are reset with the core if
  // `with_cc_semaphores`, else by reset_cc().
  void reset_core(bool with_cc_semaphores);
  void reset_cc(unsigned k);
  // Whether a sequencer stands at a breakpoint or was stopped by a command.
  bool halted_by_debugger() const;

 private:
  void start(Sequencer& s, ModelTime now);
  void resume(Sequencer& s, ModelTime now);
  void reset_sequencer(Sequencer& s);

  CoreState& state_;
  const Parts to_;
};

}  // namespace neuron::core

#endif
