// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/onnx/needed_nodes.h"

#include <algorithm>

#include "tools/compiler/onnx/model.pb.h"

namespace neuron::onnx {
namespace {

// Names that a node reads, those of its bodies too: a body sees the values around it.
void add_inputs(const file::NodeData& node, std::set<std::string>& names) {
  names.insert(node.input().begin(), node.input().end());
  for (const file::AttributeData& attribute : node.attribute()) {
    for (const file::NodeData& inner : attribute.g().node()) add_inputs(inner, names);
    for (const file::ValueData& output : attribute.g().output()) names.insert(output.name());
  }
}

}  // namespace

Needed needed_for(const file::GraphData& graph, const std::vector<std::string>& values) {
  Needed needed;
  needed.names.insert(values.begin(), values.end());
  // Nodes stand behind those whose values they read.
  for (int i = graph.node_size(); i-- > 0;) {
    const file::NodeData& node = graph.node(i);
    const auto& outputs = node.output();
    const bool wanted = std::any_of(outputs.begin(), outputs.end(), [&](const std::string& name) {
      return needed.names.count(name) != 0;
    });
    if (!wanted) continue;
    needed.nodes.insert(&node);
    add_inputs(node, needed.names);
  }
  return needed;
}

}  // namespace neuron::onnx
