// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-compile for --help and its manual page.
// Callers: its main(), tests. Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_COMPILE_MANUAL_H
#define TOOLS_NEURON_COMPILE_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::compile {

inline tools::Manual manual() {
  return {
      .name = "neuron-compile",
      .summary = "compile an ONNX model or an HLO module for a NeuronCore",
      .description =
          R"(Reads an ONNX model (operator sets 6 to 22) or an HLO module of XLA and writes a NEFF that `neuron-run`,
`neuron-serve` and any program with libnrt execute. No part of the model runs on the host. The same model and options give the
same bytes.

What cannot be compiled is refused with a sentence that names the node, its operator and what helps: all
refusals of a model at once.)",
      .sections =
          {{"SHAPES",
            R"(A NEFF has static shapes. Give free dimensions sizes by `--shape`, or by `--dim` with the name that the
model gives them. `--batch` is for first dimensions that are free, whatever their names. An input whose value decides a shape becomes part of the program by `--constant`.)"},
           {"TRAINING",
            R"(A step of training is a program like any other: inputs are the weights and a batch, outputs the new
weights and the loss. With `--donate OUTPUT=INPUT`, or the aliases of an HLO module, a weight and its new value
are one tensor: bind it as input and as output. Nothing is then copied between steps.)"},
           {"NUMBERS",
            R"(Real numbers are computed in f32, products with sums of f32. f64 becomes f32, also in inputs and
outputs. 64-bit whole numbers keep their type in inputs and outputs and are computed in 32 bits. bool is
uint8. With `--auto-cast matmult`, the operands of products are rounded to the type of
`--auto-cast-type` first.)"},
           {"COMMAND LINE OF NEURONX-CC",
            R"(`neuron-compile compile --framework XLA MODULE.pb --target trn1 --output FILE.neff` is accepted as programs write
it that call Amazon's compiler. Inputs of the program have the names of the module's parameters, outputs
are output0, output1 and so on. Options of that compiler that have no meaning here are taken and change
nothing: `--model-type`, `--pipeline`, `--logfile`, `--verbose`, `--native-int64`,
`--implicit-integer-downcast`, `--distribution-strategy`, `--internal-...` and the like. `neuron-compile
list-operators` prints opcodes. Refusals begin with the code that that compiler documents, where it means the
same: `[NCC_EUOC002]` an operator, `[NCC_EMOD025]` a dimension or a value that must be known, `[NCC_EHCA005]` a custom
call. The package neuron-cc-compat has the link neuronx-cc.)"},
           {"CHECK",
            R"(With `--check`, the program is executed with made-up inputs and compared with a reference that computes
in double and exact whole numbers: within 1e-7 + 0.001 |x| of each element x, or within 2e-6 of the largest
(sixteen units of the last place of f32), and with rounded operands within 2 % of it. It needs a device, which
may be emulated. It prints the model time that the program took beside the one that was predicted.)"}},
      .exit_statuses = {tools::kDoneStatus,
                        {1, "a file cannot be read or written, or the program cannot be built"},
                        tools::kUsageStatus,
                        {3, "the file is not a valid model"},
                        {4, "something in the model is not supported; standard error says what"},
                        {5, "`--check` found a difference"}},
      .environment = {tools::kEmulatorVariable},
      .examples = {{"neuron-compile model.onnx -o model.neff", "compile for trn1"},
                   {"NEURON_EMULATOR=trn1.2xlarge neuron-compile model.onnx -o model.neff --check",
                    "compile, execute on an emulated device, compare"},
                   {"neuron-compile model.onnx --dim batch=1 --shape x=1x3x224x224 -o model.neff",
                    "fix free dimensions"}},
      .see_also = {"neuron-run(1)", "neuron-serve(1)", "neuron-packager(1)"}};
}

}  // namespace neuron::compile

#endif
