// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-nki for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_NKI_MANUAL_H
#define TOOLS_NEURON_NKI_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::nki {

inline tools::Manual manual() {
  return {
      .name = "neuron-nki",
      .summary = "run, time and compile NKI kernels without a chip",
      .description =
          R"(An NKI kernel is a Python function under @nki.jit. This program traces it with the package nki of this
project, lowers the trace to a NEFF, executes that on an emulated device, and says what the chip would
say: values, modelled time, what is out of range, and on which line of Python.

All commands but lower are of the Python package, and need Python 3.11 and NumPy. `neuron-nki run
--help` shows the options of run, and so on. An error in the file of a kernel is one line with its place;
--traceback shows the stack.)",
      .sections =
          {{"A KERNEL",
            R"(FILE.py::KERNEL names a function of a file. --shapes gives an array for each argument that has no
default, as SHAPE or SHAPE:TYPE, such as 128x512 or 4096x1024:bfloat16; VALUE=... gives any other one.
Arrays are filled with normal random numbers of --seed.)"}},
      .exit_statuses =
          {tools::kDoneStatus,
           {1,
            "the kernel cannot be traced, lowered or executed, or leaves elements of a "
            "result unwritten; standard error says why, with the line of Python"},
           tools::kUsageStatus},
      .environment = {tools::kEmulatorVariable,
                      {"NEURON_PLATFORM_TARGET_OVERRIDE",
                       "trn1, inf2, trn2 or trn3, without --target"},
                      {"NEURON_NKI_PYTHON", "the Python that runs the package; /usr/bin/python3"},
                      {"NEURON_NKI_CACHE",
                       "folder of lowered kernels and of Python's compiled files; "
                       "~/.cache/neuron-nki; set to nothing: none"}},
      .examples = {{"neuron-nki run kernel.py::softmax --shapes 128x1024 --target trn2",
                    "statistics of the values, model time, use of the engines"},
                   {"neuron-nki compile kernel.py::softmax --shapes 128x512 -o softmax.neff",
                    "a NEFF for neuron-run, or for any program on libnrt"},
                   {"neuron-nki lower softmax.trace -o softmax.neff", "a trace alone"}},
      .see_also = {"neuron-run(1)", "neuron-as(1)", "neuron-packager(1)"}};
}

}  // namespace neuron::nki

#endif
