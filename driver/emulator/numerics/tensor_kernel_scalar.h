// SPDX-License-Identifier: Apache-2.0
// The order and the rounding of the Tensor engine in plain C++, one operation at a time: the
// definition that the SIMD kernels are compared with, and the path of hosts without AVX2.
//
// Flushing is explicit, so the results do not depend on MXCSR; flushing hardware that detects tiny
// results after rounding (x86) gives the same bits. Any thread, never fails.
#ifndef DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_SCALAR_H
#define DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_SCALAR_H

#include <cstddef>

namespace neuron::numerics {

// a * b + c and a + b, rounded once to nearest even; subnormal operands and results become zero.
float flushed_fma(float a, float b, float c);
float flushed_add(float a, float b);

// One element of the result: start + sum over k of a[k * a_stride] * b[k * b_stride]; k must be a
// multiple of 32, padding included. A NaN result is 0x7FC00000.
float dot_in_engine_order(const float* a, ptrdiff_t a_stride, const float* b, ptrdiff_t b_stride,
                          int k, float start);

}  // namespace neuron::numerics
#endif
