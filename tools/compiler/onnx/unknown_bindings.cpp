// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/onnx/unknown_bindings.h"

#include <algorithm>
#include <set>

#include "driver/base/format.h"

namespace neuron::onnx {

std::vector<std::string> unknown_bindings(const file::GraphData& graph, const Bindings& bindings) {
  std::vector<std::string> unknown, names;
  std::string inputs, dimensions;
  std::set<std::string> sizes;
  for (const file::ValueData& input : graph.input()) {
    names.push_back(input.name());
    inputs += (inputs.empty() ? "" : ", ") + base::escaped(input.name());
    for (const auto& dimension : input.type().tensor_type().shape().dim()) {
      if (!dimension.dim_param().empty()) sizes.insert(dimension.dim_param());
    }
  }
  for (const std::string& size : sizes) {
    dimensions += (dimensions.empty() ? "" : ", ") + base::escaped(size);
  }
  const auto check = [&](const char* option, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    unknown.push_back(base::format("{} {}: the model has no such input; it has {}", option,
                                   base::escaped(name), inputs));
  };
  for (const auto& [name, shape] : bindings.shapes) check("--shape", name);
  for (const auto& [name, tensor] : bindings.constants) check("--constant", name);
  for (const auto& [name, size] : bindings.dimensions) {
    if (sizes.count(name) != 0) continue;
    unknown.push_back(base::format("--dim {}: no dimension of an input has this name; {}",
                                   base::escaped(name),
                                   sizes.empty() ? "none has one" : "there are " + dimensions));
  }
  return unknown;
}

}  // namespace neuron::onnx
