// SPDX-License-Identifier: Apache-2.0
//
// neuron-as --explain: what an instruction is, which engines execute it, which rules it keeps or
// breaks, and what it costs. Callers: main(). Thread-safe: no state. Returns the exit status;
// errors go to stderr.
#ifndef TOOLS_NEURON_AS_EXPLAIN_COMMAND_H
#define TOOLS_NEURON_AS_EXPLAIN_COMMAND_H

#include <string>

namespace neuron::tools {

// `what`: an instruction, or ENGINE:PC of one in the NEFF `input`. `engine`: empty for the first
// that executes the instruction.
int explain_command(const std::string& what, const std::string& engine, const std::string& input);

}  // namespace neuron::tools

#endif
