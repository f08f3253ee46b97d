// SPDX-License-Identifier: Apache-2.0
// Registers in instructions: puts the values of a sequencer's registers where an instruction names
// them. Callers: InstructionIssue. Thread-safe: no state. Fails: ILLEGAL_FIELD, OPERAND_RANGE.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_REGISTER_SUBSTITUTION_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_REGISTER_SUBSTITUTION_H

#include "driver/emulator/neuroncore/sequencer/sequencer.h"

namespace neuron::core {

Fault substitute_registers(const Sequencer& s, const isa::Instruction& from, isa::Instruction& to);

}  // namespace neuron::core

#endif
