// SPDX-License-Identifier: Apache-2.0
// Block-scaled numbers (MX): four codes of f8e5, f8e4fn or f4 in one x4 element, and a scale of 8
// bits, 2^(scale - 127), that 8 partitions x 4 codes share.
//
// Concepts: a number is code x scale. Every code is exact in bf16, and a scale only moves its
// exponent, so numbers are bf16 as well: zero with its sign below 2^-126, where the Tensor engine
// has no numbers, and infinity above the range; scale 255 is NaN. Callers: Tensor and Vector
// engines. Any thread; no state. Cannot fail: the types have been checked.
#ifndef DRIVER_EMULATOR_NUMERICS_BLOCK_SCALED_H
#define DRIVER_EMULATOR_NUMERICS_BLOCK_SCALED_H

#include <array>
#include <cstddef>
#include <cstdint>

#include "hw/isa.h"

namespace neuron::numerics {

// The type of the codes of an x4 type; NEURON_DTYPE_NONE for f4x4, whose codes no memory type has.
unsigned code_type(unsigned x4_type);

// The number of a code of f4 (e2m1), of which the lower four bits count: sign, two bits of
// exponent, one of mantissa.
float f4_number(unsigned code);

// Code `code` (0 to 3) of each of n x4 elements, `step` elements apart, times the scale of its
// element; the scales are `scale_step` bytes apart. out: bf16.
void scaled_codes(unsigned x4_type, const std::byte* elements, ptrdiff_t step, unsigned code,
                  const std::byte* scales, ptrdiff_t scale_step, size_t n, uint16_t* out);

// The scale with which quantize_mx stores numbers of which `magnitude` is the largest: its binade
// becomes the second highest of the type, so no number overflows. 0 for zero.
uint8_t scale_for(unsigned x4_type, float magnitude);

// value / 2^(scale - 127), exact unless it is too small for any code.
float unscaled(float value, uint8_t scale);

}  // namespace neuron::numerics

#endif
