// SPDX-License-Identifier: Apache-2.0
// Floating-point formats of at most 16 bits as parameters, and their conversion from and to fp32
// bits by integer arithmetic alone: independent of MXCSR, the same on every host.
//
// Called by dtype.cpp only. Pure functions; never fail.
#ifndef DRIVER_EMULATOR_NUMERICS_SMALL_FLOAT_H
#define DRIVER_EMULATOR_NUMERICS_SMALL_FLOAT_H

#include <bit>
#include <cstdint>

namespace neuron::numerics {

struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool finite_only;  // no infinity, one NaN (all ones): the "fn" formats
};
inline constexpr SmallFloat kFloat16{5, 10, 15, false};
inline constexpr SmallFloat kFloat8E3{3, 4, 3, false};
inline constexpr SmallFloat kFloat8E4{4, 3, 7, false};
inline constexpr SmallFloat kFloat8E5{5, 2, 15, false};
inline constexpr SmallFloat kFloat8E4Fn{4, 3, 7, true};

inline float small_float_to_f32(const SmallFloat& f, uint32_t code) {
  const uint32_t sign = (code >> (f.exponent_bits + f.mantissa_bits) & 1) << 31;
  const uint32_t top = (1u << f.exponent_bits) - 1;
  const uint32_t exponent = code >> f.mantissa_bits & top;
  uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1);
  const int shift = 23 - f.mantissa_bits;
  const bool special =
      exponent == top && (!f.finite_only || mantissa == (1u << f.mantissa_bits) - 1);
  if (special) {
    const uint32_t payload = mantissa == 0 ? 0 : 0x00400000u | mantissa << shift;
    return std::bit_cast<float>(sign | 0x7F800000u | payload);
  }
  if (exponent == 0 && mantissa == 0) return std::bit_cast<float>(sign);
  int scale = static_cast<int>(exponent) - f.bias;
  if (exponent == 0) {
    // A subnormal of the format: move the leading one to the implicit place.
    const int up = std::countl_zero(mantissa) - (31 - f.mantissa_bits);
    mantissa = mantissa << up & ((1u << f.mantissa_bits) - 1);
    scale = 1 - f.bias - up;
  }
  // Adjusted biases reach no further than 2^-37, so the result is a normal fp32 number.
  return std::bit_cast<float>(sign | static_cast<uint32_t>(scale + 127) << 23 | mantissa << shift);
}

// `random` decides when stochastic: up with probability (x - lower) / (upper - lower).
inline uint32_t f32_to_small_float(const SmallFloat& f, uint32_t bits, bool saturate,
                                   bool stochastic, uint32_t random) {
  const uint32_t sign = (bits >> 31) << (f.exponent_bits + f.mantissa_bits);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const uint32_t top = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  const uint32_t all_ones = top | ((1u << f.mantissa_bits) - 1);
  const uint32_t largest = f.finite_only ? all_ones - 1 : top - 1;
  const uint32_t overflow = saturate ? largest : f.finite_only ? all_ones : top;
  if (magnitude > 0x7F800000u) {
    const uint32_t quiet = top | 1u << (f.mantissa_bits - 1);
    return sign | (f.finite_only ? all_ones : quiet);
  }
  if (magnitude == 0x7F800000u) return sign | overflow;
  if (magnitude < 0x00800000u) {
    // Below 2^-126: under half of the smallest subnormal of every format here.
    // Only stochastic rounding could move it up, with a probability below 2^-80.
    return sign;
  }
  const int scale = static_cast<int>(magnitude >> 23) - 127;
  const uint64_t mantissa = (magnitude & 0x007FFFFFu) | 0x00800000u;
  const int smallest = 1 - f.bias;
  int drop = 23 - f.mantissa_bits;
  if (scale < smallest) drop += smallest - scale;
  uint64_t kept;
  if (drop > 56) {
    kept = 0;
  } else if (stochastic) {
    const uint64_t r =
        drop <= 32 ? random >> (32 - drop) : static_cast<uint64_t>(random) << (drop - 32);
    kept = (mantissa + r) >> drop;
  } else {
    const uint64_t half = 1ull << (drop - 1);
    kept = (mantissa + half - 1 + (mantissa >> drop & 1)) >> drop;
  }
  uint64_t code = kept;
  if (scale >= smallest)
    code += (static_cast<uint64_t>(scale - smallest))
            << f.mantissa_bits;  // the implicit one adds 1
  return sign | (code > largest ? overflow : static_cast<uint32_t>(code));
}

// Nearest even, by integer arithmetic.
inline float u32_to_f32(uint32_t value) {
  if (value == 0) return 0.0f;
  const int width = 32 - std::countl_zero(value);
  if (width <= 24)
    return std::bit_cast<float>((static_cast<uint32_t>(126 + width) << 23) |
                                ((value << (24 - width)) & 0x007FFFFFu));
  const int drop = width - 24;
  const uint64_t rounded =
      (static_cast<uint64_t>(value) + (1u << (drop - 1)) - 1 + (value >> drop & 1)) >> drop;
  // A carry out of the mantissa moves into the exponent by itself.
  return std::bit_cast<float>((static_cast<uint32_t>(126 + width) << 23) +
                              (static_cast<uint32_t>(rounded) - 0x00800000u));
}

inline float i32_to_f32(int32_t value) {
  const uint32_t magnitude =
      value < 0 ? 0u - static_cast<uint32_t>(value) : static_cast<uint32_t>(value);
  const float f = u32_to_f32(magnitude);
  return value < 0 ? -f : f;
}

}  // namespace neuron::numerics
#endif
