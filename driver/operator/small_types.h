// SPDX-License-Identifier: Apache-2.0
// Numbers of 16 bits, c10::Half and c10::BFloat16: stored in their own form, computed in float.
// Conversions round to nearest, ties to even. Values; cannot fail.
#ifndef DRIVER_OPERATOR_SMALL_TYPES_H
#define DRIVER_OPERATOR_SMALL_TYPES_H

#include <cstdint>
#include <cstring>

namespace torch {

namespace small {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint16_t bfloat16_of(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline uint16_t half_of(float value) {
  const uint32_t bits = bits_of(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7C00);  // 65536 and above
  if (magnitude < 0x38800000) {  // below 2^-14: multiples of 2^-24, which this sum rounds to
    const float sum = float_of(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of(sum) - bits_of(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000) >> 13);
}

inline float float_of_half(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7FFF;
  if (magnitude >= 0x7C00) return float_of(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
  if (magnitude < 0x400) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return float_of(sign | ((magnitude << 13) + 0x38000000));
}

}  // namespace small

struct Half {
  uint16_t x = 0;
  Half() = default;
  Half(float value) : x(small::half_of(value)) {}             // NOLINT: as in c10
  operator float() const { return small::float_of_half(x); }  // NOLINT: as in c10
};

struct BFloat16 {
  uint16_t x = 0;
  BFloat16() = default;
  BFloat16(float value) : x(small::bfloat16_of(value)) {}                // NOLINT: as in c10
  operator float() const { return small::float_of(uint32_t{x} << 16); }  // NOLINT: as in c10
};

}  // namespace torch

#endif
