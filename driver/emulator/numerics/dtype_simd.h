// SPDX-License-Identifier: Apache-2.0
// The contiguous conversions that matmul and softmax traffic consists of, vectorised.
// Called by dtype.cpp; same bits as the general conversion; pointers need no alignment.
#ifndef DRIVER_EMULATOR_NUMERICS_DTYPE_SIMD_H
#define DRIVER_EMULATOR_NUMERICS_DTYPE_SIMD_H

#include <cstddef>

namespace neuron::numerics {

// Rows of at least this many 1-byte elements are converted through a table.
inline constexpr size_t kByteTable = 256;

void widen_bf16(const std::byte* src, float* dst, size_t n);
// Round to nearest even, overflow to infinity, NaN kept quiet.
void narrow_bf16(const float* src, std::byte* dst, size_t n);
// f16, likewise.
void widen_f16(const std::byte* src, float* dst, size_t n);
void narrow_f16(const float* src, std::byte* dst, size_t n);

}  // namespace neuron::numerics
#endif
