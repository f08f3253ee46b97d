// SPDX-License-Identifier: Apache-2.0
//
// A call of a custom C++ operator (hw/custom_operator.h): the program that holds it, its name
// there, and its arguments. Callers: Program::custom_operator and those that list its operations.
// Plain values, thread-safe. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_CUSTOM_CALL_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_CUSTOM_CALL_H

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "hw/custom_operator.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {

struct CustomArgument {
  CustomArgument(const Buffer& buffer) : tensor(buffer) {}  // NOLINT: reads as a buffer
  static CustomArgument real(double value) {
    return {NEURON_OPERATOR_DOUBLE, std::bit_cast<uint64_t>(value)};
  }
  static CustomArgument integer(int64_t value) {
    return {NEURON_OPERATOR_INT64, static_cast<uint64_t>(value)};
  }
  // Of parameters that are a torch::Scalar.
  static CustomArgument scalar(double value) {
    return {NEURON_OPERATOR_SCALAR, std::bit_cast<uint64_t>(value)};
  }
  static CustomArgument whole_scalar(int64_t value) {
    return {NEURON_OPERATOR_SCALAR_INT, static_cast<uint64_t>(value)};
  }

  neuron_operator_kind kind = NEURON_OPERATOR_TENSOR;
  Buffer tensor;
  uint64_t value = 0;

 private:
  CustomArgument(neuron_operator_kind number, uint64_t bits) : kind(number), value(bits) {}
};

struct CustomCall {
  std::string name;
  std::vector<uint8_t> image;  // what `neuron-operator build` writes
  bool multicore = false;      // all 8 cores of GpSimd run it
  std::vector<CustomArgument> arguments;
};

// Lists the call as the next operation of the program. Arguments that are tensors are inputs,
// constants, temporaries or outputs; the output is a temporary or an output.
void custom_operator(Program& program, const CustomCall& call, const Buffer& output);

}  // namespace neuron::builder

#endif
