// SPDX-License-Identifier: Apache-2.0
//
// Prints the directives of a program and its engines' code as text. Callers: disassembler.cpp.
// Thread-safe: no state. Cannot fail.
#ifndef TOOLS_COMPILER_ASSEMBLER_PROGRAM_PRINTER_H
#define TOOLS_COMPILER_ASSEMBLER_PROGRAM_PRINTER_H

#include <map>
#include <string>

#include "tools/compiler/assembler/assembly.h"

namespace neuron::assembler {

// Remarks about members, by name.
using Remarks = std::map<std::string, std::string>;

// .sem, .var, .queue; inputs and outputs with their tensors if these follow the variables.
std::string declarations_text(const neff::Model& model, uint32_t index, const SubgraphFiles& files,
                              bool tensors_with_variables, const Remarks& remarks);
// True if every tensor can be declared with its variable, in this order.
bool tensors_follow_variables(const neff::Model& model);
// .input and .output, if they do not.
std::string tensors_text(const neff::Model& model, uint32_t subgraph);
// .engine and what is below it.
std::string engine_text(const neff::Subgraph& subgraph, const neff::EngineProgram& program,
                        const EngineFiles& files, uint32_t generation, const std::string& keys);

}  // namespace neuron::assembler

#endif
