// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-as for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_AS_MANUAL_H
#define TOOLS_NEURON_AS_MANUAL_H

#include <string>

#include "driver/isa/explain.h"
#include "tools/common/manual.h"

namespace neuron::as {

// The names that the instruction set knows.
inline const std::string& names_text() {
  static const std::string text =
      "Operations (`op=`, `op0=`, `op1=`, `reduce=`): " + isa::all_operations() +
      ".\n\nFunctions of `activate`, beside `table128` to `table255`: " + isa::all_functions() +
      ".\n\nData types: " + isa::all_dtypes() +
      ".\n\nWhich of them an instruction takes is shown by `--explain` with its name alone, as "
      "`neuron-as --explain activate`.";
  return text;
}

inline tools::Manual manual() {
  return {
      .name = "neuron-as",
      .summary = "assemble programs for a NeuronCore, and show those of a NEFF",
      .description = R"(Assembles text to a NEFF file. `-` as input is standard input.
With `-d`, shows a NEFF as text that assembles to the same bytes of every member, and of the
whole file where a tool of this project wrote it: variables with types and shapes, queues and
transfers, semaphores by name, labels, source lines.
With `--explain`, says what an instruction does, which engines execute it since which generation,
which functions or operations it takes, its rules, what it costs, and why it would be refused. The
name of an instruction alone is enough.)",
      .sections = {{"LANGUAGE", R"(One statement a line, `#` begins a comment. Directives:
`.neff`, `.target`, `.subgraph`, `.equ`, `.sem`, `.var`, `.const`, `.input`, `.output`, `.member`,
`.queue`, `.engine`, `.dma`, `.entry`, `.line`, `.word`, `.check`, `.function_sets`, `.dve_table`.
A small program:

  .neff name=copy
  .var x : f32 [128, 4] input
  .var y : f32 [128, 4] output
  .queue q = data, engines=4, owner=SP
  .sem copied
  .engine SP
  .dma 0 copy_x : x -> y, semaphore=copied
  main:
    dma_trigger copy_x
    event  wait(copied >= 4)
    ret

The whole language is described in README.md of the source folder tools/neuron-as, instructions in
README.md of driver/isa.)"},
                   {"FUNCTIONS AND OPERATIONS", names_text()}},
      .exit_statuses = {tools::kDoneStatus,
                        {1,
                         "the text or file is at fault; standard error has the place, what was "
                         "found and what is expected"},
                        tools::kUsageStatus},
      .examples = {{"neuron-as matmul.s -o matmul.neff", "assemble"},
                   {"neuron-as -d matmul.neff -o matmul.s",
                    "text that assembles to the same bytes"},
                   {"neuron-as -d matmul.neff --constants DIR", "with constants as files in DIR"},
                   {"neuron-as --explain 'event wait(s20 >= 1)'", "rule, cost and availability"},
                   {"neuron-as --explain PE:3 matmul.neff", "likewise of instruction 3 of PE"},
                   {"neuron-as --explain activate", "its functions, operations and rules"}},
      .see_also = {"neuron-packager(1)"}};
}

}  // namespace neuron::as

#endif
