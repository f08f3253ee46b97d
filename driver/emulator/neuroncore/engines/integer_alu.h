// SPDX-License-Identifier: Apache-2.0
// Native integer arithmetic of the Pool engine, of 32 and 64 bits: wrapping, with comparisons
// giving 1 or 0.
//
// Callers: units for Pool instructions whose operands are all i32, all u32, or 64-bit integers.
// Never fails; 32-bit operations that integer_alu_covers refuses go through fp32 like those of
// other engines, 64-bit ones have been refused.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_INTEGER_ALU_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_INTEGER_ALU_H

#include <cstddef>
#include <cstdint>

namespace neuron::core {

bool integer_alu_covers(unsigned op);
// out[i] = a[i] op b[i] on integers of 4 bytes; out may be a or b. mod is that of tensors.
void integer_alu(unsigned op, bool is_signed, const std::byte* a, const std::byte* b,
                 std::byte* out, size_t n);
// a op b on 64 bits, bit operations included: counts of shifts are unsigned, and beyond the width
// they shift everything out.
uint64_t integer_alu64(unsigned op, bool is_signed, uint64_t a, uint64_t b);

// For registers of sequencers: the same operations, and some that only registers have. False:
// division by zero.
bool register_alu(unsigned op, bool is_unsigned, uint32_t a, uint32_t b, uint32_t& result);

}  // namespace neuron::core

#endif
