// SPDX-License-Identifier: Apache-2.0
//
// The parts that instructions share: tensors, scalars, register bindings, waits, updates,
// relocations. Callers: instruction_parser.cpp. Thread-safe: no state. Writes into the
// instruction; fails through the cursor.
#ifndef TOOLS_COMPILER_ASSEMBLER_OPERAND_PARSER_H
#define TOOLS_COMPILER_ASSEMBLER_OPERAND_PARSER_H

#include "tools/compiler/assembler/cursor.h"
#include "tools/compiler/assembler/instruction_parser.h"

namespace neuron::assembler {

bool at_tensor(const Cursor& cursor);
// sbuf[0:128, 0x0+r5*e] f32 [64, 2:128]; `which`: 0 dst, 1 src0, 2 src1.
void parse_tensor(Cursor& cursor, isa::Instruction& instruction, unsigned which);

uint8_t parse_dtype(Cursor& cursor);

// 0.5, 0x5 u32, r5 i32, &sbuf[0, 0x1000] f32. In `raw` instructions a whole number without a type
// is 32 bits, elsewhere an f32.
void parse_scalar(Cursor& cursor, bool raw, isa::Scalar& scalar);
// Bits of an f32 (0.5) or bits as they are (0x3F000000).
uint32_t parse_real_bits(Cursor& cursor);

// "bind0" ... "bind3" with what follows it in brackets.
void parse_binding(Cursor& cursor, isa::Instruction& instruction);

// wait(...), then(...), reloc(...), @7; false if there is none.
bool parse_clause(Cursor& cursor, const InstructionSymbols& symbols, ParsedInstruction& out);

// A semaphore by number or name; "&name" is a relocation of byte `field`.
uint8_t parse_semaphore(Cursor& cursor, const InstructionSymbols& symbols, uint16_t field,
                        ParsedInstruction& out);

// A device address: a number, or &name with an addend, which is a relocation of `field`.
uint64_t parse_device_address(Cursor& cursor, uint16_t field, ParsedInstruction& out);

}  // namespace neuron::assembler

#endif
