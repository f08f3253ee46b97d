// SPDX-License-Identifier: Apache-2.0
// Codes of 8 and 4 bits to bf16 by tables that lie in registers (VPERMI2B): 64 codes at a time,
// with their infinities and NaN, where arithmetic takes a step for each kind of number.
//
// Callers: f8_simd.cpp, which says what the types are. Any thread; MXCSR has no influence. Cannot
// fail. Only where available().
#ifndef DRIVER_EMULATOR_NUMERICS_CODE_TABLES_H
#define DRIVER_EMULATOR_NUMERICS_CODE_TABLES_H

#include <cstddef>
#include <cstdint>

namespace neuron::numerics::code_tables {

// The processor has the instruction, and the path that runs (simd_path.h) is one of those with
// matrix instructions of bf16.
bool available();

// n codes of f8e3, f8e4, f8e5 with their default bias, or f8e4fn.
void to_bf16(unsigned dtype, const std::byte* src, uint16_t* out, size_t n);
// Code `code` of n contiguous x4 elements times their contiguous scales (block_scaled.h).
void scaled_to_bf16(unsigned x4_type, const std::byte* elements, unsigned code,
                    const std::byte* scales, uint16_t* out, size_t n);

}  // namespace neuron::numerics::code_tables

#endif
