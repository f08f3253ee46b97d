// SPDX-License-Identifier: Apache-2.0
//
// The functions of maps on this host, in double and in exact integers that wrap as their type does.
// Callers: the interpreter. Thread-safe: no state. Cannot fail: division of integers by 0 gives
// all bits, as XLA says.
#ifndef TOOLS_COMPILER_GRAPH_MAP_FUNCTION_H
#define TOOLS_COMPILER_GRAPH_MAP_FUNCTION_H

#include <vector>

#include "tools/compiler/graph/graph.h"

namespace neuron::graph {

// Of functions with two operands of the type of the result.
double combine(Function function, double a, double b);
int64_t combine(Function function, Type type, int64_t a, int64_t b);

Tensor evaluate_map(const Node& node, const std::vector<const Tensor*>& operands);

}  // namespace neuron::graph

#endif
