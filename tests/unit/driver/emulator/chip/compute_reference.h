// SPDX-License-Identifier: Apache-2.0
// A plain second reading of compute packets (hw/udma.h): values as doubles, one element at a time,
// with nothing of the chip's conversions or arithmetic in it.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_CHIP_COMPUTE_REFERENCE_H
#define TESTS_UNIT_DRIVER_EMULATOR_CHIP_COMPUTE_REFERENCE_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "hw/isa.h"

namespace neuron::chip {

struct PlainType {
  unsigned bytes;
  int exponent_bits;  // 0: an integer
  int mantissa_bits;
  int bias;
  bool is_signed;
};

inline PlainType plain_type(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_F32:
    case NEURON_DTYPE_F32R:
      return {4, 8, 23, 127, true};
    case NEURON_DTYPE_TF32:
      return {4, 8, 10, 127, true};
    case NEURON_DTYPE_BF16:
      return {2, 8, 7, 127, true};
    case NEURON_DTYPE_F16:
      return {2, 5, 10, 15, true};
    case NEURON_DTYPE_F8E3:
      return {1, 3, 4, 3, true};
    case NEURON_DTYPE_F8E4:
      return {1, 4, 3, 7, true};
    case NEURON_DTYPE_F8E5:
      return {1, 5, 2, 15, true};
    case NEURON_DTYPE_I8:
      return {1, 0, 0, 0, true};
    case NEURON_DTYPE_U8:
      return {1, 0, 0, 0, false};
    case NEURON_DTYPE_I16:
      return {2, 0, 0, 0, true};
    case NEURON_DTYPE_U16:
      return {2, 0, 0, 0, false};
    case NEURON_DTYPE_I32:
      return {4, 0, 0, 0, true};
    case NEURON_DTYPE_U32:
      return {4, 0, 0, 0, false};
    case NEURON_DTYPE_I64:
      return {8, 0, 0, 0, true};
    default:
      return {8, 0, 0, 0, false};
  }
}

inline const std::vector<unsigned>& plain_types() {
  static const std::vector<unsigned> types = {
      NEURON_DTYPE_F32, NEURON_DTYPE_F32R, NEURON_DTYPE_TF32, NEURON_DTYPE_BF16,
      NEURON_DTYPE_F16, NEURON_DTYPE_F8E3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5,
      NEURON_DTYPE_I8,  NEURON_DTYPE_U8,   NEURON_DTYPE_I16,  NEURON_DTYPE_U16,
      NEURON_DTYPE_I32, NEURON_DTYPE_U32,  NEURON_DTYPE_I64,  NEURON_DTYPE_U64};
  return types;
}

// Nearest, ties to even, of x to multiples of 2^exponent.
inline double to_grid(double x, int exponent) {
  return std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
}

// Nearest value of a type with this many mantissa bits and this smallest exponent; may be 2^(max +
// 1).
inline double to_precision(double x, int mantissa_bits, int min_exponent) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), min_exponent);
  return to_grid(x, exponent - mantissa_bits);
}

// The fp32 value of an element, in a double.
inline double plain_read(unsigned dtype, const std::byte* from) {
  const PlainType type = plain_type(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, from, type.bytes);
  if (type.exponent_bits == 0) {
    if (type.is_signed) {
      const unsigned shift = 64 - 8 * type.bytes;
      const auto value = static_cast<int64_t>(bits << shift) >> shift;
      return static_cast<double>(static_cast<float>(value));
    }
    return static_cast<double>(static_cast<float>(bits));
  }
  if (dtype == NEURON_DTYPE_TF32) {  // 32 bits in memory, of which the upper 19 count
    float value;
    std::memcpy(&value, from, 4);
    double rounded = to_precision(value, 10, -126);
    if (std::fabs(rounded) >= 0x1p128) rounded = std::copysign(HUGE_VAL, rounded);
    return rounded;
  }
  const int width = type.exponent_bits + type.mantissa_bits;
  const double sign = (bits >> width & 1) != 0 ? -1 : 1;
  const auto exponent =
      static_cast<int>(bits >> type.mantissa_bits & ((1u << type.exponent_bits) - 1));
  const uint64_t mantissa = bits & ((uint64_t{1} << type.mantissa_bits) - 1);
  if (exponent == (1 << type.exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  }
  const double scaled = std::ldexp(static_cast<double>(mantissa), -type.mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(scaled, 1 - type.bias)
                               : std::ldexp(1 + scaled, exponent - type.bias));
}

// A value to the bits of a type; NaN gives `nan`.
inline void plain_write(unsigned dtype, double value, std::byte* to, bool& nan) {
  const PlainType type = plain_type(dtype);
  nan = std::isnan(value);
  uint64_t bits = 0;
  if (type.exponent_bits == 0) {
    const int width = static_cast<int>(8 * type.bytes) - (type.is_signed ? 1 : 0);
    const double above = std::ldexp(1.0, width);
    const double below = type.is_signed ? -above : 0;
    const double whole = nan ? 0 : to_grid(value, 0);
    if (whole >= above) {
      bits = type.is_signed ? (uint64_t{1} << width) - 1
                            : (width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1);
    } else if (whole <= below) {
      bits = type.is_signed ? uint64_t{1} << width : 0;
    } else {
      bits = whole < 0 ? 0 - static_cast<uint64_t>(-whole) : static_cast<uint64_t>(whole);
    }
    nan = false;
  } else if (!nan) {
    const int max_exponent = (1 << type.exponent_bits) - 2 - type.bias;
    const int min_exponent = 1 - type.bias;
    const double rounded = to_precision(value, type.mantissa_bits, min_exponent);
    const uint64_t sign = std::signbit(value) ? 1 : 0;
    const int stored = dtype == NEURON_DTYPE_TF32 ? 23 : type.mantissa_bits;
    uint64_t exponent = 0;
    uint64_t mantissa = 0;
    if (std::fabs(rounded) >= std::ldexp(1.0, max_exponent + 1)) {
      exponent = (1u << type.exponent_bits) - 1;
    } else if (rounded != 0) {
      const int e = std::max(std::ilogb(rounded), min_exponent);
      const double significand = std::ldexp(std::fabs(rounded), stored - e);
      mantissa = static_cast<uint64_t>(significand);
      exponent = mantissa >> stored != 0 ? static_cast<uint64_t>(e + type.bias) : 0;
      mantissa &= (uint64_t{1} << stored) - 1;
    }
    bits = sign << (stored + type.exponent_bits) | exponent << stored | mantissa;
  }
  std::memcpy(to, &bits, type.bytes);
}

struct PlainCompute {
  unsigned operation = NEURON_DMA_CAST;
  unsigned from = NEURON_DTYPE_F32;
  unsigned to = NEURON_DTYPE_F32;
  bool accumulate = false;
  uint32_t rows = 0;
  uint32_t columns = 0;
  std::vector<float> scales;                    // one per source
  std::vector<std::vector<std::byte>> sources;  // bytes of each
};

inline float plain_pick(unsigned operation, float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
  if (a == b) {  // only zeros differ
    const bool negative = operation == NEURON_DMA_MIN ? std::signbit(a) || std::signbit(b)
                                                      : std::signbit(a) && std::signbit(b);
    return a == 0 ? (negative ? -0.0f : 0.0f) : a;
  }
  return (operation == NEURON_DMA_MIN) == (a < b) ? a : b;
}

// The result's bytes; `destination` holds what is there before (acc). nan[i]: element i is some
// NaN.
inline std::vector<std::byte> plain_compute(const PlainCompute& c,
                                            const std::vector<std::byte>& destination,
                                            std::vector<bool>& nan) {
  const size_t from_bytes = plain_type(c.from).bytes;
  const size_t to_bytes = plain_type(c.to).bytes;
  const size_t n = c.sources[0].size() / from_bytes;
  std::vector<std::byte> out(n * to_bytes);
  nan.assign(n, false);
  for (size_t i = 0; i < n; ++i) {
    if (c.operation == NEURON_DMA_TRANSPOSE) {
      const size_t block = size_t{c.rows} * c.columns;
      const size_t row = i % block / c.columns;
      const size_t column = i % block % c.columns;
      const size_t place = i / block * block + column * c.rows + row;
      std::memcpy(&out[place * to_bytes], &c.sources[0][i * from_bytes], to_bytes);
      continue;
    }
    if (c.operation == NEURON_DMA_CAST && c.from == c.to) {
      std::memcpy(&out[i * to_bytes], &c.sources[0][i * from_bytes], to_bytes);
      continue;
    }
    float sum = 0;
    const auto combine = [&](float next) {
      const bool picks = c.operation == NEURON_DMA_MIN || c.operation == NEURON_DMA_MAX;
      sum = picks ? plain_pick(c.operation, sum, next) : sum + next;
    };
    for (size_t s = 0; s < c.sources.size(); ++s) {
      auto value = static_cast<float>(plain_read(c.from, &c.sources[s][i * from_bytes]));
      if (c.operation == NEURON_DMA_FMA) value = c.scales[s] * value;
      if (s == 0) {
        sum = value;
      } else {
        combine(value);
      }
    }
    if (c.accumulate) {
      combine(static_cast<float>(plain_read(c.to, &destination[i * to_bytes])));
    }
    if (c.operation == NEURON_DMA_MIN || c.operation == NEURON_DMA_MAX) combine(c.scales[0]);
    bool is_nan = false;
    plain_write(c.to, sum, &out[i * to_bytes], is_nan);
    nan[i] = is_nan;
  }
  return out;
}

// A reduce in the arithmetic of its type, element after element; `nan` as above.
inline std::vector<std::byte> plain_reduce(unsigned dtype, unsigned reduction, uint32_t divisor,
                                           const std::vector<std::vector<std::byte>>& sources,
                                           std::vector<bool>& nan) {
  const PlainType type = plain_type(dtype);
  const size_t n = sources[0].size() / type.bytes;
  std::vector<std::byte> out(n * type.bytes);
  nan.assign(n, false);
  for (size_t i = 0; i < n; ++i) {
    if (type.exponent_bits == 0) {
      const unsigned shift = 64 - 8 * type.bytes;
      const auto read = [&](const std::vector<std::byte>& from) {
        uint64_t bits = 0;
        std::memcpy(&bits, &from[i * type.bytes], type.bytes);
        return bits << shift;
      };
      // In the upper bits of a 64-bit word, where order and wrapping are the type's.
      const auto before = [&](uint64_t a, uint64_t b) {
        return type.is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
      };
      uint64_t value = read(sources[0]);
      for (size_t s = 1; s < sources.size(); ++s) {
        const uint64_t next = read(sources[s]);
        if (reduction == NEURON_DMA_REDUCE_SUM) value += next;
        if (reduction == NEURON_DMA_REDUCE_PRODUCT) value *= next >> shift;
        if (reduction == NEURON_DMA_REDUCE_MIN && before(next, value)) value = next;
        if (reduction == NEURON_DMA_REDUCE_MAX && before(value, next)) value = next;
      }
      if (type.is_signed) {
        auto whole = static_cast<int64_t>(value) >> shift;
        if (divisor != 0) whole /= static_cast<int64_t>(divisor);
        std::memcpy(&out[i * type.bytes], &whole, type.bytes);
      } else {
        value >>= shift;
        if (divisor != 0) value /= divisor;
        std::memcpy(&out[i * type.bytes], &value, type.bytes);
      }
      continue;
    }
    auto sum = static_cast<float>(plain_read(dtype, &sources[0][i * type.bytes]));
    for (size_t s = 1; s < sources.size(); ++s) {
      const auto next = static_cast<float>(plain_read(dtype, &sources[s][i * type.bytes]));
      if (reduction == NEURON_DMA_REDUCE_SUM) sum = sum + next;
      if (reduction == NEURON_DMA_REDUCE_PRODUCT) sum = sum * next;
      if (reduction == NEURON_DMA_REDUCE_MIN) sum = plain_pick(NEURON_DMA_MIN, sum, next);
      if (reduction == NEURON_DMA_REDUCE_MAX) sum = plain_pick(NEURON_DMA_MAX, sum, next);
    }
    if (divisor != 0) sum = sum / static_cast<float>(divisor);
    bool is_nan = false;
    plain_write(dtype, sum, &out[i * type.bytes], is_nan);
    nan[i] = is_nan;
  }
  return out;
}

}  // namespace neuron::chip

#endif
