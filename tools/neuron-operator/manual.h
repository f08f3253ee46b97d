// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-operator for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_OPERATOR_MANUAL_H
#define TOOLS_NEURON_OPERATOR_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::operators {

inline tools::Manual manual() {
  return {
      .name = "neuron-operator",
      .summary = "build custom C++ operators for the GpSimd engine",
      .description =
          R"(A custom operator is a C++ function on tensors, written for the public interface of Neuron custom
C++ operators. This program compiles its sources for the host and packs them into a library; the
emulated Pool engine runs the library's functions, each in a process without rights.

`build` compiles, `list` shows what a library holds, and `neff` writes a NEFF of one call. A device
runs operators only with NEURON_EMULATOR_CUSTOM_OPERATORS=1, because a NEFF then carries code for the
host.)",
      .sections =
          {{"SOURCES",
            R"(Kernel functions and shape functions have the same parameters: torch::Tensor, torch::Scalar, double
and int64_t. A shape source names both in NEURON_LIBRARY:

  NEURON_LIBRARY(my_ops, m) { m.def("relu", &relu_shape, "relu_compute"); }

All compute sources are compiled together, so their own names must differ. Code is compiled for the
smallest x86-64 processor and without fused operations: results are the same on every host.)"}},
      .exit_statuses = {tools::kDoneStatus,
                        {1,
                         "the sources do not compile, or the library is at fault; standard "
                         "error says why"},
                        tools::kUsageStatus},
      .environment = {{"CXX", "the compiler, without --compiler; c++"}},
      .examples = {{"neuron-operator build --compute relu.cpp --shape shape.cpp -o ops",
                    "compile a library"},
                   {"neuron-operator neff ops relu 'f32[128,64]' -o relu.neff",
                    "a NEFF with input0 and output0"},
                   {"NEURON_EMULATOR=trn1.2xlarge NEURON_EMULATOR_CUSTOM_OPERATORS=1 neuron-run "
                    "relu.neff --random",
                    "run it"}},
      .see_also = {"neuron-run(1)", "neuron-as(1)", "neuron-emulatord(8)"}};
}

}  // namespace neuron::operators

#endif
