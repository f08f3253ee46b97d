// SPDX-License-Identifier: Apache-2.0
//
// Turns the text of a whole program into the contents of a NEFF. tools/neuron-as/README.md
// describes the language. Callers: neuron-as, tests, the disassembler (which checks itself with
// it). Thread-safe: no state. Fails: diagnostics, at most one a line and kMostErrors in all; the
// assembly is then worthless.
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
  // Name shown in diagnostics and in debug lines.
  std::string file_name = "-";
  // Reads a file that the text names. Absent: such a name is an error.
  std::function<runtime::Result<std::vector<uint8_t>>(const std::string&)> read;
  // Gives every instruction without "@" a line of the line table.
  bool debug_lines = false;
  // Refuses instructions that break a rule, and everything that a loader would refuse.
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
