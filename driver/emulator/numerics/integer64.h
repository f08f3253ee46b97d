// SPDX-License-Identifier: Apache-2.0
// 64-bit integers (i64, u64) and what stands for them in other types, and for those in them.
//
// Into fp32: to the nearest, the even one of two, from the integer's own bits. From fp32: to the
// nearest even, clamped to the range, NaN gives 0: as for narrower integers. Into another integer
// type: the same number, or the nearest end of the range; nothing goes through fp32. Callers: the
// Pool engine, DMA casts. Any thread, cannot fail; MXCSR has no influence. Pointers need no
// alignment.
#ifndef DRIVER_EMULATOR_NUMERICS_INTEGER64_H
#define DRIVER_EMULATOR_NUMERICS_INTEGER64_H

#include <cstddef>
#include <cstdint>

namespace neuron::numerics {

float widen_integer64(bool is_signed, uint64_t bits);
uint64_t narrow_integer64(bool is_signed, float value);

// An integer of any type, extended to 64 bits: a signed one by its sign, others by zeros.
uint64_t extend_integer(unsigned dtype, const std::byte* src);
// Writes the integer `bits`, which is signed or not, as one of `dtype`.
void clamp_integer(bool is_signed, uint64_t bits, unsigned dtype, std::byte* dst);

// i8, i16, i32, i64.
bool is_signed_integer(unsigned dtype);

}  // namespace neuron::numerics
#endif
