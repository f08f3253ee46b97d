// SPDX-License-Identifier: Apache-2.0
// Instructions of the Vector engine that Pool executes on 64-bit integers: in integers of 64 bits
// throughout, which wrap as those of 32 bits do.
//
// tensor_copy converts between 64-bit integers and other types; all else has operands of one type.
// Callers: vector_engine, and gpsimd_select for scalars; in the group's thread. Operands have been
// checked (isa::check_operands). Never fails.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_GPSIMD_INTEGER64_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_GPSIMD_INTEGER64_H

#include "driver/emulator/neuroncore/engines/unit_context.h"

namespace neuron::core {

// A block of 64-bit integers in one of the scratch rows.
inline uint64_t* integers64_of(std::array<float, kPiece>& row) {
  return reinterpret_cast<uint64_t*>(row.data());
}

// Whether an operand of an elementwise instruction is of 64-bit integers, so that the instruction
// computes in them.
bool works_on_integers64(const isa::Instruction& instruction);
// An integer scalar of the partition, extended to 64 bits by its own sign.
uint64_t integer64_scalar(UnitContext& context, const isa::Scalar& scalar, unsigned part);

// memset, tensor_copy between two types, tensor_tensor, tensor_scalar, tensor_reduce.
Fault execute_integer64(UnitContext& context, const isa::Instruction& instruction);

}  // namespace neuron::core

#endif
