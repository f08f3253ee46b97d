// SPDX-License-Identifier: Apache-2.0
//
// Reads neff.json, the graph of the whole file: target, subgraphs, inputs and outputs.
// Callers: model.cpp, compatibility.cpp, neuron-packager. Thread-safe: no state.
// Variables are named, not resolved: they are in the subgraphs' def.json. Fails as model.h says.
#ifndef RUNTIME_NEFF_GRAPH_READER_H
#define RUNTIME_NEFF_GRAPH_READER_H

#include <string>
#include <vector>

#include "runtime/neff/model.h"

namespace neuron::neff {

struct GraphTensor {
  TensorInfo info;  // `subgraph` is an index into Graph::subgraphs, `variable` is not set.
  std::string variable;
};

struct Graph {
  std::string target;
  uint32_t generation = 0;
  uint32_t lnc = 1;
  std::vector<std::string> subgraphs;  // Directories, in order.
  std::vector<GraphTensor> inputs;
  std::vector<GraphTensor> outputs;
};

inline constexpr const char* kGraphMember = "neff.json";

// The text of the key "format" of neff.json; empty if there is no such member or key.
runtime::Result<std::string> graph_format(const Container& container);

runtime::Result<Graph> read_graph(const Container& container, const ModelLimits& limits,
                                  std::vector<std::string>& notes);

}  // namespace neuron::neff

#endif
