// SPDX-License-Identifier: Apache-2.0
// Floating-point formats below 32 bits, and their conversions by integer arithmetic: what the
// reduction is defined by, the same on every host whatever MXCSR says.
//
// Callers: the reference reduction, and the tables of the fast one. Pure functions; cannot fail.
#ifndef CCOM_REDUCTION_SMALL_FLOAT_H
#define CCOM_REDUCTION_SMALL_FLOAT_H

#include <bit>
#include <cstdint>

namespace neuron::ccom {

// All have infinities and NaNs in the highest exponent, and subnormals.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int width() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
};
inline constexpr SmallFloat kFp8E3{3, 4};
inline constexpr SmallFloat kFp8E4{4, 3};
inline constexpr SmallFloat kFp8E5{5, 2};
inline constexpr SmallFloat kFp16{5, 10};
inline constexpr SmallFloat kBf16{8, 7};

inline constexpr uint32_t kQuietNan = 0x7FC00000u;

// Exact. The payload of a NaN moves up with it, quiet.
constexpr float widen(SmallFloat format, uint32_t code) {
  const int shift = 23 - format.mantissa_bits;
  const uint32_t sign = code >> (format.width() - 1) << 31;
  const uint32_t magnitude = code & ((1u << (format.width() - 1)) - 1);
  if (magnitude >= format.infinity()) {
    const uint32_t payload = (magnitude - format.infinity()) << shift;
    return std::bit_cast<float>(sign | 0x7F800000u | (payload == 0 ? 0 : payload | 0x00400000u));
  }
  const uint32_t first_normal = 1u << format.mantissa_bits;
  // As if the exponents began where those of fp32 do; the difference is added or subtracted.
  if (magnitude >= first_normal || format.bias() == 127) {
    const uint32_t rebias = static_cast<uint32_t>(127 - format.bias()) << 23;
    return std::bit_cast<float>(sign | ((magnitude << shift) + rebias));
  }
  if (magnitude == 0) return std::bit_cast<float>(sign);
  const int top = 31 - std::countl_zero(magnitude);
  const int exponent = 1 - format.bias() - (format.mantissa_bits - top);
  const uint32_t mantissa = (magnitude << (23 - top)) & 0x007FFFFFu;
  return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent + 127) << 23 | mantissa);
}

// To nearest even; too large becomes infinity; a NaN the quiet one of its sign.
constexpr uint32_t narrow(SmallFloat format, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 31 << (format.width() - 1);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return sign | format.infinity() | 1u << (format.mantissa_bits - 1);
  }
  int drop = 23 - format.mantissa_bits;
  uint32_t mantissa = magnitude;  // with its exponent, where that stays as it is
  uint32_t base = static_cast<uint32_t>(127 - format.bias()) << format.mantissa_bits;
  const auto first_normal = static_cast<uint32_t>(128 - format.bias()) << 23;
  if (magnitude < first_normal && format.bias() != 127) {
    drop += static_cast<int>((first_normal >> 23) - (magnitude >> 23));
    if (drop > 24 || magnitude < 0x00800000u) return sign;  // below half of the smallest
    mantissa = (magnitude & 0x007FFFFFu) | 0x00800000u;
    base = 0;
  }
  const uint32_t half = (1u << (drop - 1)) - 1 + (mantissa >> drop & 1);
  const uint32_t code = ((mantissa + half) >> drop) - base;
  return sign | (code > format.infinity() ? format.infinity() : code);
}

}  // namespace neuron::ccom

#endif
