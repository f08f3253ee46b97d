// SPDX-License-Identifier: Apache-2.0
//
// Parses one instruction from text to its decoded form. The syntax is that of isa::disassemble()
// (driver/isa/README.md), with names allowed for numbers: semaphores, labels, blocks, variables.
// Callers: assembler.h, neuron-as --explain, tests. Thread-safe: no state.
// Fails through the cursor. A parsed instruction may still break a rule: call isa::check_*.
#ifndef TOOLS_COMPILER_ASSEMBLER_INSTRUCTION_PARSER_H
#define TOOLS_COMPILER_ASSEMBLER_INSTRUCTION_PARSER_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/neff/model.h"
#include "tools/compiler/assembler/cursor.h"

namespace neuron::assembler {

struct InstructionSymbols {
  std::map<std::string, uint8_t, std::less<>> semaphores;
  std::map<std::string, uint32_t, std::less<>> blocks;  // Of `.dma`
};

// A jump to a label. Its target is known when all labels are.
struct LabelUse {
  std::string name;
  uint32_t column = 0;
};

struct ParsedInstruction {
  isa::Instruction instruction;
  std::vector<neff::Relocation> relocations;  // pc is 0
  std::optional<LabelUse> label;
  bool opens_block = false;  // A loop; its length is that of the lines up to "}"
};

// The cursor stands at the mnemonic. `engine` executes the instruction unless the text names
// another; -1: the text must name one.
ParsedInstruction parse_instruction(Cursor& cursor, int engine, const InstructionSymbols& symbols);

// Parses an instruction without a program around it. Fails: nullopt, with `error` set.
std::optional<isa::Instruction> parse_instruction(std::string_view text, int engine,
                                                  Diagnostic& error);

// The rule for which a loader will refuse the instruction. Operands of bound registers are checked
// when it runs.
isa::Violation broken_rule(isa::Bytes bytes, unsigned engine, unsigned generation);

}  // namespace neuron::assembler

#endif
