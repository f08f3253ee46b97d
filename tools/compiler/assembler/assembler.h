// SPDX-License-Identifier: Apache-2.0
//
// Text of a whole program to what a NEFF holds. The language is in tools/neuron-as/README.md.
// Callers: neuron-as, tests, the disassembler (which checks itself with it). Thread-safe: no state.
// Fails: diagnostics, at most one a line and kMostErrors in all; the assembly is then worthless.
#ifndef TOOLS_COMPILER_ASSEMBLER_ASSEMBLER_H
#define TOOLS_COMPILER_ASSEMBLER_ASSEMBLER_H

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/compiler/assembler/assembly.h"
#include "tools/compiler/assembler/diagnostic.h"

namespace neuron::assembler {

inline constexpr size_t kMostErrors = 20;

struct AssembleOptions {
  // Shown in diagnostics, and the file of debug lines.
  std::string file_name = "-";
  // Contents of a file that the text names. Absent: such a name is an error.
  std::function<runtime::Result<std::vector<uint8_t>>(const std::string&)> read;
  // Gives every instruction without "@" a line of the line table.
  bool debug_lines = false;
  // Refuses instructions that break a rule, and what a loader would refuse.
  bool check = true;
};

struct Assembled {
  Assembly assembly;
  std::vector<Diagnostic> errors;
  bool ok() const { return errors.empty(); }
};

Assembled assemble(std::string_view text, const AssembleOptions& options);

}  // namespace neuron::assembler

#endif
