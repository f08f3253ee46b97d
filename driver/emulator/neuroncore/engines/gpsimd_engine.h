// SPDX-License-Identifier: Apache-2.0
// Instructions that only Pool has; those that it shares with Vector are in vector_engine.
//
// iota, affine_select: gpsimd_select.cpp. partition_reduce: gpsimd_reduce.cpp. local_gather,
// n_gather, sequence_bounds: gpsimd_gather.cpp. topk: gpsimd_topk.cpp. custom: gpsimd_custom.h.
// Partitions are counted from the destination's first. Callers: the execution group, in its thread.
// Operands have been checked (isa::check_operands). Fails: INDEX_OOB with the index and its place;
// faults of a custom operator. Nothing has been written then.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_GPSIMD_ENGINE_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_GPSIMD_ENGINE_H

#include "driver/emulator/neuroncore/engines/unit_context.h"

namespace neuron::core {

inline constexpr unsigned kGpsimdCorePartitions = 16;

Fault execute_pool(UnitContext& context, const isa::Instruction& instruction);

Fault execute_iota(UnitContext& context, const isa::Instruction& instruction);
Fault affine_select(UnitContext& context, const isa::Instruction& instruction);
Fault partition_reduce(UnitContext& context, const isa::Instruction& instruction);
Fault local_gather(UnitContext& context, const isa::Instruction& instruction);
Fault n_gather(UnitContext& context, const isa::Instruction& instruction);
Fault sequence_bounds(UnitContext& context, const isa::Instruction& instruction);
Fault nonzero_with_count(UnitContext& context, const isa::Instruction& instruction);
Fault topk(UnitContext& context, const isa::Instruction& instruction);
Fault execute_custom(UnitContext& context, const isa::Instruction& instruction);

}  // namespace neuron::core

#endif
