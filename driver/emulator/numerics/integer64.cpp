// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/integer64.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "driver/emulator/numerics/dtype.h"
#include "hw/isa.h"

namespace neuron::numerics {

bool is_signed_integer(unsigned dtype) {
  return dtype == NEURON_DTYPE_I8 || dtype == NEURON_DTYPE_I16 || dtype == NEURON_DTYPE_I32 ||
         dtype == NEURON_DTYPE_I64;
}

float widen_integer64(bool is_signed, uint64_t bits) {
  const bool negative = is_signed && (bits >> 63) != 0;
  uint64_t magnitude = negative ? 0 - bits : bits;
  int shift = 0;
  if (magnitude >> 24 != 0) {
    shift = 40 - std::countl_zero(magnitude);
    const uint64_t lost = magnitude & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    magnitude >>= shift;
    if (lost > half || (lost == half && (magnitude & 1) != 0)) ++magnitude;
  }
  // At most 2^24 times a power of two: exact.
  float value = static_cast<float>(static_cast<int32_t>(magnitude));
  for (; shift >= 16; shift -= 16) value *= 65536.0f;
  value *= static_cast<float>(1u << shift);
  return negative ? -value : value;
}

uint64_t narrow_integer64(bool is_signed, float value) {
  const uint64_t highest = is_signed ? ~uint64_t{0} >> 1 : ~uint64_t{0};
  if (value != value) return 0;
  if (value < 0 && !is_signed) return 0;
  const float magnitude = value < 0 ? -value : value;
  const float limit = is_signed ? 0x1p63f : 0x1p64f;
  if (magnitude >= limit) return value < 0 ? uint64_t{1} << 63 : highest;
  uint64_t whole = static_cast<uint64_t>(magnitude);
  if (magnitude < 0x1p24f) {
    const float rest = magnitude - static_cast<float>(static_cast<int32_t>(whole));
    if (rest > 0.5f || (rest == 0.5f && (whole & 1) != 0)) ++whole;
  }
  return value < 0 ? 0 - whole : whole;
}

uint64_t extend_integer(unsigned dtype, const std::byte* src) {
  const unsigned bytes = element_bytes(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, src, bytes);  // little endian
  if (!is_signed_integer(dtype)) return bits;
  const unsigned above = 64 - 8 * bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(bits << above) >> above);
}

void clamp_integer(bool is_signed, uint64_t bits, unsigned dtype, std::byte* dst) {
  const unsigned bytes = element_bytes(dtype);
  const bool negative = is_signed && (bits >> 63) != 0;
  const bool to_signed = is_signed_integer(dtype);
  const uint64_t highest = ~uint64_t{0} >> (64 - 8 * bytes + (to_signed ? 1 : 0));
  uint64_t clamped = 0;
  if (!negative) {
    clamped = std::min(bits, highest);
  } else if (to_signed) {
    const auto lowest = -static_cast<int64_t>(highest) - 1;
    clamped = static_cast<uint64_t>(std::max(static_cast<int64_t>(bits), lowest));
  }
  std::memcpy(dst, &clamped, bytes);
}

}  // namespace neuron::numerics
