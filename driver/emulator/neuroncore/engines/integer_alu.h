// SPDX-License-Identifier: Apache-2.0
// Native 32-bit integer arithmetic of the Pool engine: wrapping, with comparisons giving 1 or 0.
//
// Callers: vector_engine for Pool instructions whose operands are all i32 or all u32. Never fails;
// operations that integer_alu_covers refuses go through fp32 like those of other engines.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_INTEGER_ALU_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_INTEGER_ALU_H

#include <cstddef>
#include <cstdint>

namespace neuron::core {

bool integer_alu_covers(unsigned op);
// out[i] = a[i] op b[i]; out may be a or b.
void integer_alu(unsigned op, bool is_signed, const std::byte* a, const std::byte* b,
                 std::byte* out, size_t n);

// For registers of sequencers: the same operations, and some that only registers have. False:
// division by zero.
bool register_alu(unsigned op, bool is_unsigned, uint32_t a, uint32_t b, uint32_t& result);

}  // namespace neuron::core

#endif
