// SPDX-License-Identifier: Apache-2.0
// The families of Vector instructions that have a file of their own.
//
// Callers: execute_vector, after the operands were checked, in the group's thread. Each returns a
// fault before it has written anything, or none.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_VECTOR_FAMILIES_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_VECTOR_FAMILIES_H

#include "driver/emulator/neuroncore/engines/unit_context.h"

namespace neuron::core {

// vector_reduce.cpp
Fault tensor_reduce(UnitContext& context, const isa::Instruction& instruction);
// vector_accumulate.cpp
Fault tensor_scalar_reduce(UnitContext& context, const isa::Instruction& instruction);
Fault read_accumulator(UnitContext& context, const isa::Instruction& instruction);
// vector_scan.cpp
Fault tensor_tensor_scan(UnitContext& context, const isa::Instruction& instruction);
Fault tensor_scalar_cumulative(UnitContext& context, const isa::Instruction& instruction);
// vector_predicate.cpp
Fault copy_predicated(UnitContext& context, const isa::Instruction& instruction);
// vector_select.cpp
Fault select_reduce(UnitContext& context, const isa::Instruction& instruction);
Fault range_select(UnitContext& context, const isa::Instruction& instruction);
// vector_exponential.cpp
Fault exponential(UnitContext& context, const isa::Instruction& instruction);
// vector_quantize.cpp
Fault quantize_mx(UnitContext& context, const isa::Instruction& instruction);
// vector_statistics.cpp
Fault bn_stats(UnitContext& context, const isa::Instruction& instruction);
Fault bn_aggr(UnitContext& context, const isa::Instruction& instruction);
// vector_search.cpp
Fault max8(UnitContext& context, const isa::Instruction& instruction);
Fault find_index8(UnitContext& context, const isa::Instruction& instruction);
Fault match_replace8(UnitContext& context, const isa::Instruction& instruction);
// vector_shuffle.cpp
Fault stream_shuffle(UnitContext& context, const isa::Instruction& instruction);
Fault transpose32(UnitContext& context, const isa::Instruction& instruction);
// vector_random.cpp
Fault dropout(UnitContext& context, const isa::Instruction& instruction);
Fault random_bits(UnitContext& context, const isa::Instruction& instruction);
Fault set_random_seed(UnitContext& context, const isa::Instruction& instruction);
Fault uniform(UnitContext& context, const isa::Instruction& instruction);
Fault set_random_state(UnitContext& context, const isa::Instruction& instruction);
Fault get_random_state(UnitContext& context, const isa::Instruction& instruction);

// Executes a reduce command (R8) before its instruction, on the accumulator lanes that the
// destination's partitions name. Returns whether results are to be added up.
bool prepare_accumulator(UnitContext& context, const isa::Operand& dst, unsigned command,
                         unsigned operation, const isa::Scalar& load);
// On Vector an idle command leaves the accumulators undefined: NaN.
void forget_accumulator(UnitContext& context, const isa::Operand& dst);

Fault not_allowed(unsigned operation);

inline std::byte* bytes_of(float* scratch) { return reinterpret_cast<std::byte*>(scratch); }

}  // namespace neuron::core

#endif
