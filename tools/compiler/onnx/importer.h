// SPDX-License-Identifier: Apache-2.0
//
// An ONNX model becomes a graph: differences between operator sets 6 to 22 end here, local
// functions are inlined, branches on constants are decided, loops of known length are unrolled.
//
// Callers: neuron-compile, tests, the fuzzer. Thread-safe: no state. Fails: a file that is no model
// gives an error; what a model has that cannot be compiled gives refusals, all of them at once.
#ifndef TOOLS_COMPILER_ONNX_IMPORTER_H
#define TOOLS_COMPILER_ONNX_IMPORTER_H

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/refusal.h"

namespace neuron::onnx {

// What the caller decides about the model's inputs.
struct Bindings {
  std::map<std::string, graph::Shape> shapes;  // of inputs
  std::map<std::string, int64_t> dimensions;   // by the name that the model gives them
  uint32_t batch = 0;  // of first dimensions that are free and not named above; 0: not given
  std::map<std::string, graph::Tensor> constants;  // inputs that become part of the program
  // Inputs that are sequences of tensors become part of the program, too; an optional input
  // that is absent is an entry of `absent`.
  std::map<std::string, std::vector<graph::Tensor>> sequences;
  std::vector<std::string> absent;
  // The program ends with these values, whatever the outputs of the model are; what they do not
  // need is not looked at.
  std::vector<std::string> end_at;
  graph::Limits limits;
};

struct Imported {
  graph::Graph graph;
  std::vector<graph::Refusal> refusals;  // empty: the graph is whole
  std::vector<std::string> inputs;       // names in the order of the model, bound ones too
  std::vector<std::string> unknown;      // bindings that name nothing of the model, as sentences
};

// `name` is that of the program; `folder` is where the model's other files are, empty: there are
// none.
runtime::Result<Imported> import_model(std::span<const uint8_t> bytes, const std::string& name,
                                       const std::string& folder, const Bindings& bindings = {});

// The operators that are known, sorted; with the domain before those of others than ONNX's own.
std::vector<std::string> operator_names();

}  // namespace neuron::onnx

#endif
