// SPDX-License-Identifier: Apache-2.0
//
// Computes a graph on this host: what devices are compared with. Each node is computed in double or
// in exact integers, and its value rounded to its type once.
// Callers: Builder (folding), neuron-compile --check, tests. Thread-safe: no state. Fails: on
// operands that do not fit the node, which Builder does not make.
#ifndef TOOLS_COMPILER_GRAPH_INTERPRETER_H
#define TOOLS_COMPILER_GRAPH_INTERPRETER_H

#include <memory>
#include <string>
#include <vector>

#include "tools/compiler/graph/graph.h"

namespace neuron::graph {

using SharedTensor = std::shared_ptr<const Tensor>;

// The value of one node, given those of its operands.
Tensor evaluate_node(const Node& node, const std::vector<const Tensor*>& operands);

// The outputs of the graph, in order, for inputs in order. Values of one shape and type each.
// For graphs without exchanges, or with those of one rank.
std::vector<SharedTensor> evaluate(const Graph& graph, const std::vector<SharedTensor>& inputs);

// A node that is not computed here: a kernel, whose values are zeros. Empty if there is none.
std::string not_computed(const Graph& graph);

// The outputs of every rank for the inputs of every rank, of which there are as many as the graph
// names (ranks_of) or more.
std::vector<std::vector<SharedTensor>> evaluate_ranks(
    const Graph& graph, const std::vector<std::vector<SharedTensor>>& inputs);

}  // namespace neuron::graph

#endif
