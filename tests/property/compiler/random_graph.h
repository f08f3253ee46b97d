// SPDX-License-Identifier: Apache-2.0
//
// Graphs that follow from a list of numbers: sizes are primes, ranks 0 to 7, and every kind of node
// occurs. Values stay within some units, and what jumps (comparisons, rounding) reads inputs only,
// so that a program may differ from the reference by rounding alone. What no node reads is an
// output, so every node is needed. Callers: the property test.
// Thread-safe: no state. Cannot fail.
#ifndef TESTS_PROPERTY_COMPILER_RANDOM_GRAPH_H
#define TESTS_PROPERTY_COMPILER_RANDOM_GRAPH_H

#include <cstdint>
#include <vector>

#include "tools/compiler/graph/graph.h"
#include "tools/compiler/graph/interpreter.h"

namespace neuron::property {

// Four numbers make an operation, and each operation at least one node. No operation begins once
// there are `most` nodes.
graph::Graph random_graph(const std::vector<uint32_t>& numbers, size_t most);
std::vector<graph::SharedTensor> random_inputs(const graph::Graph& graph);

}  // namespace neuron::property

#endif
