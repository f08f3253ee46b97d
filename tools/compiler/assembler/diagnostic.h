// SPDX-License-Identifier: Apache-2.0
//
// An error in a text and its place: shown as file:line:column, the line, and a caret.
// Callers: everything of this folder, neuron-as. Thread-safe: values. Cannot fail.
#ifndef TOOLS_COMPILER_ASSEMBLER_DIAGNOSTIC_H
#define TOOLS_COMPILER_ASSEMBLER_DIAGNOSTIC_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::assembler {

struct Diagnostic {
  uint32_t line = 1;    // From 1.
  uint32_t column = 1;  // From 1, in bytes.
  std::string message;
};

// "file:3:9: found ..., expected ...", the line, a caret. `source` is the whole text.
std::string render(const Diagnostic& diagnostic, std::string_view file, std::string_view source);
// All of them, one below the other.
std::string render(const std::vector<Diagnostic>& diagnostics, std::string_view file,
                   std::string_view source);

}  // namespace neuron::assembler

#endif
