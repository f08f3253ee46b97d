// SPDX-License-Identifier: Apache-2.0
// The life of one instruction: fetch, break, drain, wait, substitute, check, execute, update.
//
// Callers: the group's loop, by the holder of the core. Allocates nothing for an instruction.
// Fails: an instruction's fault is raised at its sequencer.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_INSTRUCTION_ISSUE_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_INSTRUCTION_ISSUE_H

#include "driver/emulator/neuroncore/group/control_flow.h"
#include "driver/emulator/neuroncore/group/core_meeting.h"
#include "driver/emulator/neuroncore/group/datapath.h"
#include "driver/emulator/neuroncore/group/dma_actors.h"
#include "driver/emulator/neuroncore/group/dma_issue.h"
#include "driver/emulator/neuroncore/group/issue.h"
#include "driver/emulator/neuroncore/group/operator_issue.h"
#include "driver/emulator/neuroncore/group/semaphore_updates.h"
#include "driver/emulator/neuroncore/sequencer/current_limit.h"

namespace neuron::core {

class InstructionIssue {
 public:
  // The classes that issuing an instruction needs beside the core's state.
  struct Parts {
    FaultReporter& faults;
    StrictObserver& strict;
    Waits& waits;
    SemaphoreUpdates& updates;
    DmaActors& dma;
    DmaIssue& dma_issue;
    ControlFlow& control_flow;
    Datapath& datapath;
    CoreMeeting& meeting;
    OperatorIssue& operators;
  };
  InstructionIssue(CoreState& state, const Parts& parts)
      : state_(state), to_(parts), current_limit_(state.limits.generation) {}

  // The event of a sequencer: updates that are due, then the next instruction.
  void step(Sequencer& s, ModelTime now);

 private:
  void issue(Sequencer& s, ModelTime now);
  bool meets_breakpoint(const Sequencer& s, const isa::Instruction& i) const;
  bool must_drain(Sequencer& s, const isa::Instruction& i, ModelTime now);
  bool meets_injected_fault(Sequencer& s, const CachedInstruction& entry, ModelTime now);
  bool must_arrive(Sequencer& s, const CachedInstruction& entry, ModelTime now);
  Fault execute(Issue& issue);
  void retire(Issue& issued);
  ModelTime multiplication_time(const Issue& issued, ModelTime begin);
  ModelTime begin_beside_array(Issue& issued, ModelTime array);
  bool traces(const Sequencer& s, const isa::Instruction& i) const {
    return i.trace || (s.mode & 3) == 2;
  }
  void trace(const Issue& issued);
  void trace_wait(Sequencer& s, const isa::Instruction& i, ModelTime now);

  CoreState& state_;
  const Parts to_;
  isa::Instruction substituted_;
  CurrentLimit current_limit_;
};

}  // namespace neuron::core

#endif
