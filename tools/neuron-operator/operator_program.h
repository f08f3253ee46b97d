// SPDX-License-Identifier: Apache-2.0
//
// A program of one call of a custom operator: tensors in, tensors out.
// Callers: main(), tests. Fails: NRT_INVALID with the argument that does not go with the operator.
#ifndef TOOLS_NEURON_OPERATOR_OPERATOR_PROGRAM_H
#define TOOLS_NEURON_OPERATOR_OPERATOR_PROGRAM_H

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tools/neuron-operator/library.h"

namespace neuron::operators {

struct OperatorRequest {
  std::string library;  // a file
  std::string name;
  std::vector<std::string> arguments;  // "f32[2,3]", "0.5", "7"
  uint8_t generation = 2;
};

// Inputs are input0, input1, ... in the order of the arguments that are tensors; the output is
// output0.
runtime::Result<std::vector<uint8_t>> operator_program(const OperatorRequest& request);

}  // namespace neuron::operators

#endif
