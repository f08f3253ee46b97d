// SPDX-License-Identifier: Apache-2.0
// Elementwise instructions and reductions of the Vector engine, which Pool shares.
//
// Arithmetic widens to fp32, computes with one rounding per operation and rounds once more into the
// destination's type. Bit operations and copies between equal types move raw bits. 32-bit integers
// are exact on Pool only (native integer arithmetic); Vector computes them in fp32.
// Callers: the execution group, in its thread. Operands have been checked. Fails: OPERAND_SHAPE for
// streams beyond kMaxElements, OP_NOT_ALLOWED for operations that do not exist in any unit.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_VECTOR_ENGINE_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_VECTOR_ENGINE_H

#include "driver/emulator/neuroncore/engines/block_loop.h"
#include "driver/emulator/neuroncore/engines/unit_context.h"

namespace neuron::core {

Fault execute_vector(UnitContext& context, const isa::Instruction& instruction);

// Called after an engine other than the PE wrote `dst`: its PSUM cells no longer count as the PE's.
void clear_pe_marks(UnitContext& context, const isa::Operand& dst);

// fp32 values of a scalar slot for the partitions of a block, repeated `count` times each.
void expand_scalar(UnitContext& context, const isa::Scalar& scalar, unsigned part, unsigned rows,
                   size_t count, float* out);
// One step of tensor_scalar on the packed fp32 of a block: out = x op scalar, or scalar op x.
void scalar_step(UnitContext& context, unsigned op, const isa::Scalar& scalar, bool reverse,
                 const Block& block, const float* x, float* out);
// The one value of an immediate.
float immediate_value(const isa::Scalar& scalar);

}  // namespace neuron::core

#endif
