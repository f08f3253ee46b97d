// SPDX-License-Identifier: Apache-2.0
//
// Turns a NEFF into text that assembles to the same bytes of every member. If this project's tools
// wrote the file, the text assembles to the same bytes of the whole file.
// Callers: neuron-as, tests. Thread-safe: no state. The text is checked by assembling it; a member
// that would differ is given byte by byte (.member).
// Fails: the sentence of the reader that refuses the file (a program of another compiler ...).
#ifndef TOOLS_COMPILER_ASSEMBLER_DISASSEMBLER_H
#define TOOLS_COMPILER_ASSEMBLER_DISASSEMBLER_H

#include <functional>
#include <string>

#include "runtime/base/error.h"
#include "runtime/neff/container.h"

namespace neuron::assembler {

struct DisassembleOptions {
  // Stores the contents of a constant and returns the file name for the text. Absent: constants are
  // printed in the text.
  std::function<runtime::Result<std::string>(const std::string& member, neff::Bytes contents)> save;
};

struct Disassembly {
  std::string text;
  std::vector<std::string> verbatim;  // Members that the text gives byte by byte, for the reader
  bool same_file = false;             // The text assembles to the whole file's bytes.
};

runtime::Result<Disassembly> disassemble(neff::Bytes file, const DisassembleOptions& options = {});

}  // namespace neuron::assembler

#endif
