// SPDX-License-Identifier: Apache-2.0
// Activation functions (NEURON_ACT_*) as fixed programs of IEEE fp32 +, -, *, /, sqrt, fma and
// integer operations in a fixed order: no libm, the same bits on every SIMD path and host.
//
// README.md of this folder states each function's formula, measured error and behaviour outside the
// documented input range. A NaN input gives 0x7FC00000, except in copy, which keeps the bits.
// Callers: the Activation engine, after scale and bias. Any thread; in and out may be the same
// array but must not overlap otherwise; MXCSR comes back as it was. An unknown function writes NaN:
// ask activation_known first.
#ifndef DRIVER_EMULATOR_NUMERICS_ACTIVATION_H
#define DRIVER_EMULATOR_NUMERICS_ACTIVATION_H

#include <cstddef>

#include "driver/emulator/numerics/float_environment.h"
#include "driver/emulator/numerics/row.h"
#include "hw/isa.h"

namespace neuron::numerics {

bool activation_known(unsigned function);

// param: slope of prelu for negative inputs; ignored by all others.
void activate(unsigned function, const float* in, float* out, size_t n, float param = 0.0f,
              Subnormals subnormals = Subnormals::kKeep);

// out = function(x * scales[row] + biases[row]), with two roundings, on rows in memory. The bits
// equal those of the packed steps. A null pointer leaves its step out. For every function but copy,
// which keeps the bits of NaN.
struct ActivationRows {
  const float* scales = nullptr;
  const float* biases = nullptr;
  float param = 0.0f;
  SourceRows x;
  ResultRows out;
};
void activate_rows(unsigned function, const ActivationRows& work, size_t rows, size_t n);

// Whether the function is documented for a limited range only.
bool activation_has_domain(unsigned function);

// The number of inputs outside the range that the function is documented for; the engine reports it
// as a warning. Such inputs are computed all the same.
size_t count_outside_domain(unsigned function, const float* in, size_t n);

}  // namespace neuron::numerics
#endif
