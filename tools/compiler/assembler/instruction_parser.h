// SPDX-License-Identifier: Apache-2.0
//
// One instruction: text to its decoded form. The syntax is that of isa::disassemble()
// (driver/isa/README.md), and names where it has numbers: semaphores, labels, blocks, variables.
// Callers: assembler.h, neuron-as --explain, tests. Thread-safe: no state.
// Fails through the cursor. What parses may still break a rule: ask isa::check_*.
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

// A jump to a label; the number of instructions is known when all labels are.
struct LabelUse {
  std::string name;
  uint32_t column = 0;
};

struct ParsedInstruction {
  isa::Instruction instruction;
  std::vector<neff::Relocation> relocations;  // pc is 0
  std::optional<LabelUse> label;
  bool opens_block = false;  // A loop whose length is that of the lines up to "}"
};

// The cursor stands at the mnemonic. `engine` is executing, unless the text says otherwise; -1: the
// text must say.
ParsedInstruction parse_instruction(Cursor& cursor, int engine, const InstructionSymbols& symbols);

// The instruction alone, where no program is around it; nullopt with `error` set.
std::optional<isa::Instruction> parse_instruction(std::string_view text, int engine,
                                                  Diagnostic& error);

// What a loader will say of the instruction. Operands of bound registers are checked when it runs.
isa::Violation broken_rule(isa::Bytes bytes, unsigned engine);

}  // namespace neuron::assembler

#endif
