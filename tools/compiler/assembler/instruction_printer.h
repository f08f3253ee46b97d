// SPDX-License-Identifier: Apache-2.0
//
// One instruction of a program as a line that parse_instruction() reads back to the same bytes:
// isa::disassemble() with names of semaphores, blocks, variables and labels for their numbers.
// Callers: disassembler.cpp. Thread-safe: const calls. Borrows the subgraph and program.
// Cannot fail: what would not come back the same prints as .word.
#ifndef TOOLS_COMPILER_ASSEMBLER_INSTRUCTION_PRINTER_H
#define TOOLS_COMPILER_ASSEMBLER_INSTRUCTION_PRINTER_H

#include <map>
#include <string>
#include <vector>

#include "tools/compiler/assembler/instruction_parser.h"

namespace neuron::assembler {

class InstructionPrinter {
 public:
  InstructionPrinter(const neff::Subgraph& subgraph, const neff::EngineProgram& program);

  // `labels`: by pc, for targets of jumps. `block`: a loop ends in "{" instead of its length.
  std::string print(uint32_t pc, const std::map<uint32_t, std::string>& labels, bool block) const;

  isa::Bytes bytes(uint32_t pc) const;
  const std::map<uint32_t, std::string>& blocks() const { return blocks_; }
  std::string semaphore(uint8_t number) const;

 private:
  using Relocations = std::vector<const neff::Relocation*>;

  std::string symbolic(const isa::Instruction& instruction, Relocations relocations,
                       const std::string& label, bool block) const;
  std::string raw(isa::Bytes bytes, const Relocations& relocations) const;
  std::string clauses(const isa::Instruction& instruction, Relocations& relocations) const;
  std::string counter(uint8_t number, bool event, uint16_t field, Relocations& relocations) const;
  std::string address(const neff::Relocation& relocation) const;
  bool comes_back(const std::string& text, const isa::Instruction& instruction,
                  const Relocations& relocations) const;

  const neff::EngineProgram& program_;
  std::map<uint32_t, Relocations> relocations_;  // By pc
  std::map<uint8_t, std::string> semaphores_;    // As they are spelled
  std::map<uint32_t, std::string> blocks_;
  InstructionSymbols symbols_;
};

}  // namespace neuron::assembler

#endif
