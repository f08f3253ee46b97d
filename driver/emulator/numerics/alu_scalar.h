// SPDX-License-Identifier: Apache-2.0
// The ALU operations that are computed one element at a time on every path: pow, mod, bypass.
// Called by alu.cpp inside its floating-point environment; pure functions, never fail.
#ifndef DRIVER_EMULATOR_NUMERICS_ALU_SCALAR_H
#define DRIVER_EMULATOR_NUMERICS_ALU_SCALAR_H

#include <cstddef>

namespace neuron::numerics {

// x to the power y with the special cases of C's pow; within 1 ulp, not from libm.
float power(float x, float y);
// x - y * trunc(x / y), exact, with the sign of x.
float remainder_towards_zero(float x, float y);
// The same, plus y (rounded once) where its sign is not that of y: mod has the sign of the divisor.
float remainder_towards_minus_infinity(float x, float y);

// out[i] = a[i * a_step] op b[i * b_step]; NaN for operations other than the three.
void alu_one_by_one(unsigned op, const float* a, ptrdiff_t a_step, const float* b, ptrdiff_t b_step,
                    float* out, size_t n);

}  // namespace neuron::numerics
#endif
