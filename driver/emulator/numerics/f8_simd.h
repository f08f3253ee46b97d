// SPDX-License-Identifier: Apache-2.0
// Codes of 8 and 4 bits to bf16, many at a time: what the Tensor engine's fast paths read. Every
// code is exact in bf16.
//
// Callers: tensor_kernel.cpp, block_scaled.cpp. Any thread; MXCSR has no influence. Each returns
// how many elements it has converted, from the first on: all where there are tables in registers
// (code_tables.h), else whole vectors, none on the scalar path; the caller converts the rest one by
// one, to the same bits.
#ifndef DRIVER_EMULATOR_NUMERICS_F8_SIMD_H
#define DRIVER_EMULATOR_NUMERICS_F8_SIMD_H

#include <cstddef>
#include <cstdint>

namespace neuron::numerics {

// f8e3, f8e4, f8e5 with their default bias, and f8e4fn.
size_t f8_to_bf16(unsigned dtype, const std::byte* src, uint16_t* out, size_t n);
// Code `code` of contiguous x4 elements times their contiguous scales (block_scaled.h).
size_t scaled_to_bf16(unsigned x4_type, const std::byte* elements, unsigned code,
                      const std::byte* scales, uint16_t* out, size_t n);

}  // namespace neuron::numerics

#endif
