// SPDX-License-Identifier: Apache-2.0
//
// What the command line of neuron-compile asks for, read from its texts.
// Callers: main(), tests. Values. Fails: with a sentence that names the option and what it expects.
#ifndef TOOLS_NEURON_COMPILE_OPTIONS_H
#define TOOLS_NEURON_COMPILE_OPTIONS_H

#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/compiler/onnx/importer.h"

namespace neuron::compile {

enum class Framework : uint8_t {
  kByName,  // ".onnx" is ONNX, any other name XLA
  kOnnx,
  kXla,
};

struct Options {
  std::string model, output = "file.neff";
  onnx::Bindings bindings;
  std::vector<std::pair<std::string, std::string>> constants;  // input and the text of its value
  std::vector<std::pair<std::string, std::string>> donated;    // output and the input it replaces
  lowering::Options lowering;
  std::string target = "trn1";
  Framework framework = Framework::kByName;
  bool check = false;
  bool json = false;
  bool neuronx_cc = false;  // called by the command line of that compiler: its codes are printed
};

// "x=1x3x224x224", "batch=1".
runtime::Result<void> read_shape(const std::string& text, onnx::Bindings& bindings);
runtime::Result<void> read_dimension(const std::string& text, onnx::Bindings& bindings);

// "weight_new=weight": the output has the memory of the input. Fails: with what there is.
runtime::Result<void> donate(const std::vector<std::pair<std::string, std::string>>& donated,
                             graph::Graph& graph);

// The value of an input: a number, numbers "[1, 2, 3]", or "@FILE.npy".
runtime::Result<graph::Tensor> read_constant(const std::string& text);

// Options that say how to lower for a name of an instance family.
runtime::Result<void> set_target(const std::string& target, lowering::Options& options);

}  // namespace neuron::compile

#endif
