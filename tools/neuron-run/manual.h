// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-run for --help and its manual page.
// Callers: its main(), tests. Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_RUN_MANUAL_H
#define TOOLS_NEURON_RUN_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::run {

inline tools::Manual manual() {
  return {
      .name = "neuron-run",
      .summary = "run a NEFF on arrays of NumPy",
      .description =
          R"(Reads the inputs of a model from .npy files, executes the model on one NeuronCore, writes the
outputs that are asked for to .npy files, and prints how long it took, on the clock of the device (of an
emulated device: the time that its model of a chip gives) and on that of this host.

It uses one core: the first one of `NEURON_RT_VISIBLE_CORES`, a free one without the variable.
`neuron-packager info` shows the names, types and shapes of a model's inputs and outputs.)",
      .sections =
          {{"ARRAYS",
            R"(An array must have the shape and the type of its input; nothing is converted. It is in C order and
little-endian, as numpy.save writes it on most hosts.

bfloat16 :: NumPy has no such type. Its bits are written as uint16 and read as uint16 or `V2`, which is what
numpy.save makes of the bfloat16 of ml_dtypes. In NumPy, (y.astype("u4") << 16).view("f4") is float32.

8-bit floats :: Their bits are written as uint8 and read as uint8, `V1` or `f1`.

float32r :: float32.

bool :: It is read where the input is uint8.)"},
           {"REPETITIONS",
            R"(With `--repeat`, the inputs are written once, before the first execution, and the outputs are those of
the last one. A model that changes its inputs goes on from what it left.)"},
           {"RANDOM INPUTS",
            R"(With `--random`, each input without a file gets numbers that depend on `--seed`, its name, type and
shape alone: floating-point numbers of any sign, between 1/16 and 1 in magnitude, or whole numbers from
0 to 15. `--output` with the name of an input writes what the input holds after the last execution.)"}},
      .exit_statuses = {tools::kDoneStatus,
                        {1,
                         "there is no device, a file does not fit, or the execution failed; "
                         "standard error says why"},
                        tools::kUsageStatus,
                        {3, "no permission to open the devices"},
                        {4, "somebody holds the cores"}},
      .environment = {tools::kEmulatorVariable,
                      {"NEURON_RT_VISIBLE_CORES", "the cores of which the first one is used"}},
      .examples = {{"neuron-run model.neff --input x=x.npy --output y=y.npy",
                    "one execution on one's own data"},
                   {"neuron-run model.neff --random --repeat 100", "times, with made-up inputs"},
                   {"neuron-run model.neff --random --seed 7 --output x=x.npy --output y=y.npy",
                    "made-up inputs, kept beside the outputs"}},
      .see_also = {"neuron-packager(1)", "neuron-bench(1)", "neuron-serve(1)"}};
}

}  // namespace neuron::run

#endif
