// SPDX-License-Identifier: Apache-2.0
//
// Parses the syntax that belongs to single opcodes: keys ("op0=add"), flags ("swap") and words ("r5
// = 3"). Callers: instruction_parser.cpp. Thread-safe: no state. Writes into the instruction; fails
// through the cursor.
#ifndef TOOLS_COMPILER_ASSEMBLER_BODY_PARSER_H
#define TOOLS_COMPILER_ASSEMBLER_BODY_PARSER_H

#include <string>

#include "driver/isa/opcode_table.h"
#include "tools/compiler/assembler/instruction_parser.h"

namespace neuron::assembler {

struct BodyContext {
  Cursor& cursor;
  const isa::OpcodeInfo& info;
  const InstructionSymbols& symbols;
  ParsedInstruction& out;
};

// Sets fields that have a default, and parses what stands directly behind the mnemonic.
void start_body(Cursor& cursor, const isa::OpcodeInfo& info, const InstructionSymbols& symbols,
                ParsedInstruction& out);
// The activation function in front of its source.
void parse_function(Cursor& cursor, isa::Instruction& instruction);
// Parses one key or word. False, with nothing read, if the opcode has no such key or word.
bool parse_item(const BodyContext& context);
// For messages.
std::string keys_of(const isa::OpcodeInfo& info);

// Group 1: a word without "key=", as "r5 = 3", "lt", "+12", a label (flow_parser.cpp).
bool parse_flow_word(const BodyContext& context);

}  // namespace neuron::assembler

#endif
