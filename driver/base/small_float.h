// SPDX-License-Identifier: Apache-2.0
// Floating-point formats of at most 16 bits, and their conversion from and to fp32.
//
// Conversions use integer arithmetic alone, so they give the same bits on every host, whatever its
// MXCSR says. Callers: the reference arithmetic of the emulated chip and of collectives, and the
// tables of their fast paths. Pure functions; cannot fail.
#ifndef DRIVER_BASE_SMALL_FLOAT_H
#define DRIVER_BASE_SMALL_FLOAT_H

#include <bit>
#include <cstdint>

namespace neuron::base {

// A sign, an exponent and a mantissa, with subnormals.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  // True for the "fn" formats: no infinity, and the only NaN is all ones. In the others the highest
  // exponent encodes infinity and NaNs.
  bool finite_only = false;

  constexpr int width() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  // Codes without the sign: all bits set, and the largest number.
  constexpr uint32_t all_ones() const { return (1u << (width() - 1)) - 1; }
  constexpr uint32_t largest() const { return finite_only ? all_ones() - 1 : infinity() - 1; }
  // Its exponents are those of fp32, so its subnormals are too.
  constexpr bool has_exponents_of_f32() const { return exponent_bits == 8; }
};
inline constexpr SmallFloat kFp8E3{3, 4, 3};
inline constexpr SmallFloat kFp8E4{4, 3, 7};
inline constexpr SmallFloat kFp8E5{5, 2, 15};
inline constexpr SmallFloat kFp8E4Fn{4, 3, 7, true};
inline constexpr SmallFloat kFp16{5, 10, 15};
inline constexpr SmallFloat kBf16{8, 7, 127};

inline constexpr uint32_t kQuietNan = 0x7FC00000u;  // of fp32

// Exact. The payload of a NaN moves up with it; the result is quiet.
constexpr float widen(const SmallFloat& format, uint32_t code) {
  const int shift = 23 - format.mantissa_bits;
  const uint32_t sign = code >> (format.width() - 1) << 31;
  const uint32_t magnitude = code & format.all_ones();
  uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  if (format.finite_only ? magnitude == format.all_ones() : magnitude >= format.infinity()) {
    const uint32_t payload = mantissa == 0 ? 0 : 0x00400000u | mantissa << shift;
    return std::bit_cast<float>(sign | 0x7F800000u | payload);
  }
  if (format.has_exponents_of_f32()) return std::bit_cast<float>(sign | magnitude << shift);
  if (magnitude == 0) return std::bit_cast<float>(sign);
  int exponent = static_cast<int>(magnitude >> format.mantissa_bits) - format.bias;
  if (magnitude == mantissa) {
    // A subnormal of the format: its leading one moves to the implicit place.
    const int up = std::countl_zero(mantissa) - (31 - format.mantissa_bits);
    mantissa = mantissa << up & ((1u << format.mantissa_bits) - 1);
    exponent = 1 - format.bias - up;
  }
  return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent + 127) << 23 |
                              mantissa << shift);
}

struct Narrowing {
  bool saturate = false;  // a value too large becomes the largest number, else infinity (fn: NaN)
  // Rounds up with probability (x - lower) / (upper - lower), as `random` decides; else to nearest
  // even.
  bool stochastic = false;
  uint32_t random = 0;
};

// A NaN becomes the quiet one of its sign.
constexpr uint32_t narrow(const SmallFloat& format, float value, const Narrowing& how = {}) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 31 << (format.width() - 1);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const uint32_t overflow = how.saturate         ? format.largest()
                            : format.finite_only ? format.all_ones()
                                                 : format.infinity();
  if (magnitude > 0x7F800000u) {
    const uint32_t quiet = format.infinity() | 1u << (format.mantissa_bits - 1);
    return sign | (format.finite_only ? format.all_ones() : quiet);
  }
  if (magnitude == 0x7F800000u) return sign | overflow;
  const bool subnormal = magnitude < 0x00800000u;
  // A value below 2^-126 is under half of the smallest subnormal of any format with a smaller
  // exponent range. Only stochastic rounding could move it up, with a probability below 2^-80.
  if (subnormal && !format.has_exponents_of_f32()) return sign;
  const int exponent = subnormal ? -126 : static_cast<int>(magnitude >> 23) - 127;
  const uint64_t mantissa = (magnitude & 0x007FFFFFu) | (subnormal ? 0 : 0x00800000u);
  const int smallest = 1 - format.bias;
  int drop = 23 - format.mantissa_bits;
  if (exponent < smallest) drop += smallest - exponent;
  uint64_t code = 0;
  if (drop <= 56) {
    uint64_t round = (uint64_t{1} << (drop - 1)) - 1 + (mantissa >> drop & 1);
    if (how.stochastic) {
      round = drop <= 32 ? how.random >> (32 - drop) : uint64_t{how.random} << (drop - 32);
    }
    code = (mantissa + round) >> drop;
  }
  if (exponent >= smallest) {
    // The implicit one of the mantissa adds 1 to the exponent.
    code += static_cast<uint64_t>(exponent - smallest) << format.mantissa_bits;
  }
  return sign | (code > format.largest() ? overflow : static_cast<uint32_t>(code));
}

}  // namespace neuron::base

#endif
