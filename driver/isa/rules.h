// SPDX-License-Identifier: Apache-2.0
// Which operation is legal in which instruction, shared by both checks.
//
// Callers: check_encoding.cpp, check_operands.cpp. Thread-safe: no state. The texts of violations
// are static and say what is expected; describe() adds what was found.
#ifndef DRIVER_ISA_RULES_H
#define DRIVER_ISA_RULES_H

#include "driver/isa/instruction.h"

namespace neuron::isa {

inline Violation violation(unsigned code, unsigned offset, uint32_t value, const char* what,
                           unsigned rule = 0, unsigned operand = 0) {
  return {static_cast<uint8_t>(code),
          static_cast<uint8_t>(rule),
          static_cast<uint8_t>(offset),
          static_cast<uint8_t>(operand),
          value,
          what};
}

bool is_register_alu(unsigned op);
bool is_bit_alu(unsigned op);    // and, or, xor, not, shifts: raw integers (R3)
bool is_unary_alu(unsigned op);  // takes no second operand
bool is_reducible_alu(unsigned op);
bool is_comparison_alu(unsigned op);
bool is_integer_dtype(unsigned dtype);
bool is_int64_dtype(unsigned dtype);  // i64, u64
// Operations that Pool computes on integers themselves, not in fp32.
bool is_integer_alu(unsigned op);
bool is_float_dtype(unsigned dtype);
// Whether an operand of a compute instruction is of 64-bit integers.
bool has_int64(const Instruction& instruction);
// Whether Pool executes some form of the opcode on 64-bit integers, from generation 3 on.
bool takes_int64(unsigned opcode);
bool is_packed_dtype(unsigned dtype);  // x4 types: four codes, to be multiplied by block scales

// dma.ctl and the patterns of dma_generate, dma_gather, dma_scatter.
Violation check_dma_encoding(const Instruction& instruction, unsigned slots, const Limits& limits);

// Operation words of the compute groups: OP_NOT_ALLOWED and illegal enum values.
Violation check_operations(const Instruction& instruction, unsigned engine, const Limits& limits);

}  // namespace neuron::isa

#endif
