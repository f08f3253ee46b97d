// SPDX-License-Identifier: Apache-2.0
//
// The part of a model that some of its values depend on: what --end-at leaves of it.
// Callers: the importer. Thread-safe: no state. Cannot fail.
#ifndef TOOLS_COMPILER_ONNX_NEEDED_NODES_H
#define TOOLS_COMPILER_ONNX_NEEDED_NODES_H

#include <set>
#include <string>
#include <vector>

namespace neuron::onnx {

namespace file {
class GraphData;
class NodeData;
}  // namespace file

struct Needed {
  std::set<const file::NodeData*> nodes;
  std::set<std::string> names;  // all that the nodes and their bodies read, and the values
};

Needed needed_for(const file::GraphData& graph, const std::vector<std::string>& values);

}  // namespace neuron::onnx

#endif
