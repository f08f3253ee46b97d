// SPDX-License-Identifier: Apache-2.0
// Custom operators: C++ functions that run on Pool's eight cores. The device has the operators that
// are registered here; the instruction names one by its number.
//
//   1 partition_all_reduce  dst[p, n] = sum over all partitions of a[., n], in every partition
//   2 sort                  dst[p] = the elements of a[p], ascending, NaN last
//   3 histogram             dst[p, j] = how many elements of a[p] are j when rounded down; a NaN or
//                           one outside 0 .. bins - 1 is counted nowhere
//
// Operands: dst and a have the same partitions; none of the three uses b, which must be absent.
// Arithmetic is fp32 as everywhere. Callers: execute_custom, in the group's thread. Fails:
// ILLEGAL_FIELD for a number that is not registered, OPERAND_SHAPE; nothing has then been written.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_GPSIMD_CUSTOM_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_GPSIMD_CUSTOM_H

#include <span>

#include "driver/emulator/neuroncore/engines/unit_context.h"

namespace neuron::core {

struct CustomOperator {
  uint32_t number;
  const char* name;
  bool same_elements;  // dst and a have the same number of elements per partition
  void (*run)(UnitContext& context, const isa::Instruction& instruction);
};

std::span<const CustomOperator> custom_operators();
const CustomOperator* find_custom_operator(uint32_t number);

}  // namespace neuron::core

#endif
