// SPDX-License-Identifier: Apache-2.0
// Instructions that a unit executes: sets the unit's modes and runs it.
//
// Callers: InstructionIssue, by the holder of the core, with registers substituted and operands
// checked. Owns the PE's weights; the other units live in CoreState. Fails: by the fault that
// execute() returns, with nothing written.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_DATAPATH_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_DATAPATH_H

#include "driver/emulator/neuroncore/engines/indirection.h"
#include "driver/emulator/neuroncore/engines/tensor_engine.h"
#include "driver/emulator/neuroncore/group/fault_reporter.h"
#include "driver/emulator/neuroncore/group/issue.h"

namespace neuron::core {

// Bytes that an operand names, for Sequencer::written.
WrittenRange range_of(CoreMemory& memory, const isa::Operand& operand);

class Datapath {
 public:
  Datapath(CoreState& state, FaultReporter& faults) : state_(state), faults_(faults) {}

  Fault execute(Issue& issue);
  // Clears what a program leaves in the unit of an engine and the next program could see.
  void reset(unsigned engine);

 private:
  void set_modes(UnitContext& unit, const Sequencer& s, const isa::Instruction& i,
                 bool stochastic) const;
  Fault run_unit(UnitContext& unit, const Issue& issue);
  // `i`: the instruction, or the same on tiles in place of indirect operands.
  Fault run_direct(UnitContext& unit, const Issue& issue, const isa::Instruction& i);

  CoreState& state_;
  FaultReporter& faults_;
  TensorEngine tensor_engine_;
  Indirection indirection_;
};

}  // namespace neuron::core

#endif
