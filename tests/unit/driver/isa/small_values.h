// SPDX-License-Identifier: Apache-2.0
// The numbers that a data type has, worked out from its bits alone, and which of them stands for a
// number that the type does not have. Knows nothing of the converters of the emulator.
// Callers: tests. Thread-safe: no state that changes.
#ifndef TESTS_UNIT_DRIVER_ISA_SMALL_VALUES_H
#define TESTS_UNIT_DRIVER_ISA_SMALL_VALUES_H

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "hw/isa.h"

namespace neuron::isa::testing {

struct NumberFormat {
  unsigned bytes;
  bool is_integer, is_signed;
  int exponent_bits, mantissa_bits, bias;  // of floating point
};

inline NumberFormat format_of(uint8_t type) {
  switch (type) {
    case NEURON_DTYPE_I8:
      return {1, true, true, 0, 0, 0};
    case NEURON_DTYPE_U8:
      return {1, true, false, 0, 0, 0};
    case NEURON_DTYPE_I16:
      return {2, true, true, 0, 0, 0};
    case NEURON_DTYPE_U16:
      return {2, true, false, 0, 0, 0};
    case NEURON_DTYPE_I32:
      return {4, true, true, 0, 0, 0};
    case NEURON_DTYPE_U32:
      return {4, true, false, 0, 0, 0};
    case NEURON_DTYPE_I64:
      return {8, true, true, 0, 0, 0};
    case NEURON_DTYPE_U64:
      return {8, true, false, 0, 0, 0};
    case NEURON_DTYPE_BF16:
      return {2, false, true, 8, 7, 127};
    case NEURON_DTYPE_F16:
      return {2, false, true, 5, 10, 15};
    case NEURON_DTYPE_F8E3:
      return {1, false, true, 3, 4, 3};
    case NEURON_DTYPE_F8E4:
      return {1, false, true, 4, 3, 7};
    case NEURON_DTYPE_F8E5:
      return {1, false, true, 5, 2, 15};
    case NEURON_DTYPE_F8E4FN:
      return {1, false, true, 4, 3, 7};
    // Scales and codes of blocks, which instructions on single elements only move, as bits.
    case NEURON_DTYPE_E8M0:
      return {1, true, false, 0, 0, 0};
    case NEURON_DTYPE_F4X4:
      return {2, true, false, 0, 0, 0};
    case NEURON_DTYPE_F8E5X4:
    case NEURON_DTYPE_F8E4FNX4:
      return {4, true, false, 0, 0, 0};
    case NEURON_DTYPE_TF32:
      return {4, false, true, 8, 10, 127};
    default:  // F32, F32R
      return {4, false, true, 8, 23, 127};
  }
}

// OCP's f8e4m3: no infinities, and one NaN of each sign above 448.
inline bool without_infinities(uint8_t type) { return type == NEURON_DTYPE_F8E4FN; }

// The number of a code; of 64-bit integers, one that a double has.
inline double number_of(uint8_t type, uint64_t code) {
  const NumberFormat f = format_of(type);
  const unsigned bits = 8 * f.bytes;
  if (f.is_integer) {
    if (!f.is_signed || (code >> (bits - 1) & 1) == 0) return static_cast<double>(code);
    return -static_cast<double>((~code & ~uint64_t{0} >> (64 - bits)) + 1);
  }
  const int mantissa_bits = f.bytes == 4 ? 23 : f.mantissa_bits;  // tf32 lies in 32 bits
  const bool negative = (code >> (bits - 1) & 1) != 0;
  const int exponent = static_cast<int>(code >> mantissa_bits & ((1u << f.exponent_bits) - 1));
  const auto mantissa = static_cast<uint32_t>(code & ((1u << mantissa_bits) - 1));
  const bool top = exponent == (1 << f.exponent_bits) - 1;
  if (without_infinities(type) ? top && mantissa == (1u << mantissa_bits) - 1 : top) {
    if (mantissa != 0) return std::numeric_limits<double>::quiet_NaN();
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  const double significand = std::ldexp(mantissa, -mantissa_bits) + (exponent > 0 ? 1 : 0);
  return (negative ? -1 : 1) * std::ldexp(significand, std::max(exponent, 1) - f.bias);
}

// The code of a number that the type has; nothing if it has not.
inline std::optional<uint64_t> code_of(uint8_t type, double number) {
  const NumberFormat f = format_of(type);
  if (f.bytes == 4 && !f.is_integer) return std::bit_cast<uint32_t>(static_cast<float>(number));
  const uint64_t codes = f.is_integer ? 0 : uint64_t{1} << 8 * f.bytes;
  if (f.is_integer) {
    const uint64_t code =
        static_cast<uint64_t>(static_cast<int64_t>(number)) & ~uint64_t{0} >> (64 - 8 * f.bytes);
    if (number_of(type, code) == number) return code;
    return std::nullopt;
  }
  for (uint64_t code = 0; code < codes; ++code) {
    if (number_of(type, code) == number) return code;
  }
  return std::nullopt;
}

// What stands for `number` in the type: the nearest one, the even one of two, an integer type's
// largest or smallest where the number lies beyond, and infinity (NaN where the type has none)
// where it lies half a step or more beyond a floating-point type's largest.
inline double rounded_to(uint8_t type, double number) {
  const NumberFormat f = format_of(type);
  if (f.is_integer) {
    const double low = f.is_signed ? -std::ldexp(1.0, 8 * static_cast<int>(f.bytes) - 1) : 0;
    const double high = std::ldexp(1.0, 8 * static_cast<int>(f.bytes) - (f.is_signed ? 1 : 0)) - 1;
    return std::clamp(std::nearbyint(number), low, high);
  }
  if (number == 0 || std::isnan(number)) return number;
  if (without_infinities(type) && std::fabs(number) > 464) {  // 448 is even, so the tie is its own
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double beyond = without_infinities(type)
                            ? HUGE_VAL
                            : std::ldexp(2 - std::ldexp(1.0, -f.mantissa_bits - 1),
                                         (1 << f.exponent_bits) - 2 - f.bias);
  if (std::fabs(number) >= beyond) return std::copysign(HUGE_VAL, number);
  const int exponent = std::max(std::ilogb(number), 1 - f.bias);
  const double step = std::ldexp(1.0, exponent - f.mantissa_bits);
  return std::nearbyint(number / step) * step;
}

}  // namespace neuron::isa::testing

#endif
