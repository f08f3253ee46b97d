// SPDX-License-Identifier: Apache-2.0
//
// Bindings of inputs and dimensions that a model does not have: a name that is misspelt must not
// count as given. Callers: the importer. Thread-safe: no state.
#ifndef TOOLS_COMPILER_ONNX_UNKNOWN_BINDINGS_H
#define TOOLS_COMPILER_ONNX_UNKNOWN_BINDINGS_H

#include <string>
#include <vector>

#include "tools/compiler/onnx/importer.h"
#include "tools/compiler/onnx/model.pb.h"

namespace neuron::onnx {

// A sentence for each, with the names that there are.
std::vector<std::string> unknown_bindings(const file::GraphData& graph, const Bindings& bindings);

}  // namespace neuron::onnx

#endif
