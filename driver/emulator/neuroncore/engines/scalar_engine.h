// SPDX-License-Identifier: Apache-2.0
// The Activation engine: func(data * scale + bias), with a sum per lane.
//
// Scaling and bias are two roundings (multiply, then add), like tensor_scalar; an absent scale or
// bias costs no rounding. The accumulators sum the function's fp32 results before they are rounded
// into the destination's type, in stream order; the lane is the destination's partition.
// Callers: the execution group, in its thread. Operands have been checked.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_SCALAR_ENGINE_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_SCALAR_ENGINE_H

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/neuroncore/engines/unit_context.h"

namespace neuron::core {

Fault execute_activate(UnitContext& context, const isa::Instruction& instruction);

// Reads a table set from device memory (include/hw/activation_table.h). For a malformed set returns
// ILLEGAL_FIELD with the device address and value of the wrong word, and keeps the old set.
Fault execute_load_table(UnitContext& context, const isa::Instruction& instruction,
                         const chip::Bus& bus, const chip::Access& access);

}  // namespace neuron::core

#endif
