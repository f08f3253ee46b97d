// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/block_scaled.h"

#include <algorithm>
#include <bit>

#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/f8_simd.h"

namespace neuron::numerics {
namespace {

constexpr uint16_t kScaleInfinity = 0x7F80, kNan = 0x7FC0, kBf16Sign = 0x8000;
constexpr unsigned kMantissaBits = 7;
constexpr size_t kCodes = 256;
uint16_t bf16_of(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

using Table = std::array<uint16_t, kCodes>;

Table table_of(unsigned type) {
  Table table{};
  for (size_t code = 0; code < kCodes; ++code) {
    const auto byte = static_cast<std::byte>(code);
    const float value =
        type == NEURON_DTYPE_NONE ? f4_number(static_cast<unsigned>(code)) : widen_one(type, &byte);
    table[code] = value != value ? kNan : bf16_of(value);
  }
  return table;
}

// The bf16 of each code; those of f4 in the first 16 places.
const Table& codes_of(unsigned x4_type) {
  static const std::array<Table, 3> tables = {
      table_of(NEURON_DTYPE_NONE), table_of(NEURON_DTYPE_F8E5), table_of(NEURON_DTYPE_F8E4FN)};
  return tables[x4_type - NEURON_DTYPE_F4X4];
}

// A code in bf16 times 2^(scale - 127). Codes are normal numbers of bf16, or special.
uint16_t times_scale(uint16_t code, unsigned scale) {
  const int magnitude = code & ~kBf16Sign;
  const int moved =
      magnitude + (static_cast<int>(scale) - NEURON_MX_SCALE_BIAS) * (1 << kMantissaBits);
  int result = moved;
  if (moved < 1 << kMantissaBits) result = 0;
  if (moved > kScaleInfinity) result = kScaleInfinity;
  if (magnitude == 0 || magnitude >= kScaleInfinity) result = magnitude;
  if (scale == NEURON_MX_SCALE_NAN) return kNan;
  return static_cast<uint16_t>((code & kBf16Sign) | result);
}

}  // namespace

float f4_number(unsigned code) {
  constexpr float kMagnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = kMagnitudes[code & 7];
  return (code & 8) != 0 ? -magnitude : magnitude;
}

unsigned code_type(unsigned x4_type) {
  switch (x4_type) {
    case NEURON_DTYPE_F8E5X4:
      return NEURON_DTYPE_F8E5;
    case NEURON_DTYPE_F8E4FNX4:
      return NEURON_DTYPE_F8E4FN;
    default:
      return NEURON_DTYPE_NONE;
  }
}

void scaled_codes(unsigned x4_type, const std::byte* elements, ptrdiff_t step, unsigned code,
                  const std::byte* scales, ptrdiff_t scale_step, size_t n, uint16_t* out) {
  size_t done = 0;
  if (step == 1 && scale_step == 1) {
    done = scaled_to_bf16(x4_type, elements, code, scales, out, n);
  }
  const Table& codes = codes_of(x4_type);
  const bool halves = x4_type == NEURON_DTYPE_F4X4;
  const ptrdiff_t stride = step * (halves ? 2 : 4);
  const std::byte* at =
      elements + static_cast<ptrdiff_t>(done) * stride + (halves ? code / 2 : code);
  scales += static_cast<ptrdiff_t>(done) * scale_step;
  const unsigned shift = halves && code % 2 != 0 ? 4 : 0;
  const unsigned mask = halves ? 15 : 255;
  for (size_t i = done; i < n; ++i, at += stride, scales += scale_step) {
    const unsigned bits = static_cast<unsigned>(*at) >> shift & mask;
    out[i] = times_scale(codes[bits], static_cast<unsigned>(*scales));
  }
}

uint8_t scale_for(unsigned x4_type, float magnitude) {
  // Largest exponent of the type, less one: twice the scale of the OCP specification's example.
  const int highest = x4_type == NEURON_DTYPE_F8E5X4 ? 15 - 1 : 8 - 1;
  if (magnitude == 0.0f) return 0;
  // A subnormal counts as the binade below the normal numbers: its scale is 0 in any case.
  const int exponent = static_cast<int>(std::bit_cast<uint32_t>(magnitude) >> 23 & 0xFF) - 127;
  return static_cast<uint8_t>(std::clamp(exponent - highest + NEURON_MX_SCALE_BIAS, 0, 254));
}

float unscaled(float value, uint8_t scale) {
  const uint64_t exponent = uint64_t{1023} + NEURON_MX_SCALE_BIAS - scale;
  return static_cast<float>(static_cast<double>(value) * std::bit_cast<double>(exponent << 52));
}

}  // namespace neuron::numerics
