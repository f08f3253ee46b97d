// SPDX-License-Identifier: Apache-2.0
// Instructions that only Pool has; what it shares with Vector is in vector_engine.
//
// iota: element = offset + partition * channel multiplier + sum of step * index, in wrapping 32-bit
// integers, then converted to the destination's type: exactly into 32-bit integers, through fp32
// into all others.
// Callers: the execution group, in its thread. Operands have been checked.
#ifndef DRIVER_EMULATOR_NEURONCORE_GPSIMD_ENGINE_H
#define DRIVER_EMULATOR_NEURONCORE_GPSIMD_ENGINE_H

#include "driver/emulator/neuroncore/unit_context.h"

namespace neuron::core {

Fault execute_iota(UnitContext& context, const isa::Instruction& instruction);

}  // namespace neuron::core

#endif
