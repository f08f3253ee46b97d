// SPDX-License-Identifier: Apache-2.0
//
// The operation of the engines' arithmetic units for a function of the graph.
// Callers: tasks. Thread-safe: no state. Cannot fail: it is asked for functions of two operands
// that the units have, so not for division and its remainders.
#ifndef TOOLS_COMPILER_LOWERING_ALU_H
#define TOOLS_COMPILER_LOWERING_ALU_H

#include <cstdint>

#include "tools/compiler/graph/graph.h"

namespace neuron::lowering {

uint8_t alu_of(graph::Function function);
// The type of 32 bits whose order whole numbers of the type have.
uint8_t order_dtype(graph::Type type);

}  // namespace neuron::lowering

#endif
