// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/dtype.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>

#include "driver/base/small_float.h"
#include "driver/emulator/numerics/dtype_simd.h"

namespace neuron::numerics {
namespace {

using base::SmallFloat;

constexpr uint32_t kTf32DroppedBits = 13;

template <typename T>
T read(const std::byte* src) {
  T value;
  std::memcpy(&value, src, sizeof(T));
  return value;
}

template <typename T>
void write(std::byte* dst, T value) {
  std::memcpy(dst, &value, sizeof(T));
}

// Narrows to bf16 or tf32, which are fp32 with the low bits dropped.
uint32_t drop_low_bits(uint32_t bits, unsigned drop, const NarrowMode& mode, uint32_t random) {
  constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7F800000u, kQuiet = 0x00400000u;
  const uint32_t sign = bits & kSign;
  uint32_t magnitude = bits & ~kSign;
  const uint32_t kept = ~0u << drop;
  if (magnitude > kInfinity) return sign | ((magnitude | kQuiet) & kept);
  if (mode.rounding == Rounding::kStochastic) {
    if (magnitude < kInfinity) magnitude += random >> (32 - drop);
  } else {
    magnitude += (1u << (drop - 1)) - 1 + ((magnitude >> drop) & 1);
  }
  magnitude &= kept;
  if (magnitude >= kInfinity) magnitude = mode.saturate ? (kInfinity - 1) & kept : kInfinity;
  return sign | magnitude;
}

float saturate_f32(float value) {
  constexpr float kMax = std::numeric_limits<float>::max();
  return value > kMax ? kMax : value < -kMax ? -kMax : value;
}

// Round to nearest even, clamp, NaN gives 0.
template <typename T>
T to_integer(float value) {
  constexpr float kLow = static_cast<float>(std::numeric_limits<T>::min());
  constexpr float kEnd = static_cast<float>(1ull << std::numeric_limits<T>::digits);  // max + 1
  if (!(value == value)) return 0;
  if (value >= kEnd) return std::numeric_limits<T>::max();
  if (value <= kLow) return std::numeric_limits<T>::min();
  const int64_t whole = static_cast<int64_t>(value);     // towards zero
  const float rest = value - static_cast<float>(whole);  // exact: whole < 2^24 when rest is not 0
  const float size = rest < 0 ? -rest : rest;
  const bool away = size > 0.5f || (size == 0.5f && (whole & 1));
  const int64_t rounded = away ? whole + (value < 0 ? -1 : 1) : whole;
  return static_cast<T>(
      std::clamp<int64_t>(rounded, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

const SmallFloat* small_float_of(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_F16:
      return &base::kFp16;
    case NEURON_DTYPE_F8E3:
      return &base::kFp8E3;
    case NEURON_DTYPE_F8E4:
      return &base::kFp8E4;
    case NEURON_DTYPE_F8E5:
      return &base::kFp8E5;
    case NEURON_DTYPE_F8E4FN:
      return &base::kFp8E4Fn;
    default:
      return nullptr;
  }
}

// Nearest even, by integer arithmetic.
float u32_to_f32(uint32_t value) {
  if (value == 0) return 0.0f;
  const int width = 32 - std::countl_zero(value);
  if (width <= 24) {
    return std::bit_cast<float>((static_cast<uint32_t>(126 + width) << 23) |
                                ((value << (24 - width)) & 0x007FFFFFu));
  }
  const int drop = width - 24;
  const uint64_t rounded =
      (static_cast<uint64_t>(value) + (1u << (drop - 1)) - 1 + (value >> drop & 1)) >> drop;
  // A carry out of the mantissa moves into the exponent by itself.
  return std::bit_cast<float>((static_cast<uint32_t>(126 + width) << 23) +
                              (static_cast<uint32_t>(rounded) - 0x00800000u));
}

float i32_to_f32(int32_t value) {
  const uint32_t magnitude =
      value < 0 ? 0u - static_cast<uint32_t>(value) : static_cast<uint32_t>(value);
  const float f = u32_to_f32(magnitude);
  return value < 0 ? -f : f;
}

base::Narrowing narrowing(const NarrowMode& mode, uint32_t random) {
  return {mode.saturate, mode.rounding == Rounding::kStochastic, random};
}

// The format of a type with the given bias; only the three f8 types of generation 2 take one.
SmallFloat with_bias(unsigned dtype, uint8_t bias) {
  SmallFloat format = *small_float_of(dtype);
  const bool adjustable =
      dtype == NEURON_DTYPE_F8E3 || dtype == NEURON_DTYPE_F8E4 || dtype == NEURON_DTYPE_F8E5;
  if (adjustable && bias != 0) format.bias = bias;
  return format;
}

}  // namespace

unsigned element_bytes(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_I8:
    case NEURON_DTYPE_U8:
    case NEURON_DTYPE_F8E3:
    case NEURON_DTYPE_F8E4:
    case NEURON_DTYPE_F8E5:
    case NEURON_DTYPE_F8E4FN:
    case NEURON_DTYPE_E8M0:
      return 1;
    case NEURON_DTYPE_I16:
    case NEURON_DTYPE_U16:
    case NEURON_DTYPE_BF16:
    case NEURON_DTYPE_F16:
    case NEURON_DTYPE_F4X4:
      return 2;
    case NEURON_DTYPE_I32:
    case NEURON_DTYPE_U32:
    case NEURON_DTYPE_F32:
    case NEURON_DTYPE_F32R:
    case NEURON_DTYPE_TF32:
    case NEURON_DTYPE_F8E5X4:
    case NEURON_DTYPE_F8E4FNX4:
      return 4;
    case NEURON_DTYPE_U64:
    case NEURON_DTYPE_I64:
      return 8;
    default:
      return 0;
  }
}

bool is_float(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_F32:
    case NEURON_DTYPE_F32R:
    case NEURON_DTYPE_TF32:
    case NEURON_DTYPE_BF16:
      return true;
    default:
      return small_float_of(dtype) != nullptr;
  }
}

bool is_integer(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_I8:
    case NEURON_DTYPE_U8:
    case NEURON_DTYPE_I16:
    case NEURON_DTYPE_U16:
    case NEURON_DTYPE_I32:
    case NEURON_DTYPE_U32:
    case NEURON_DTYPE_I64:
    case NEURON_DTYPE_U64:
      return true;
    default:
      return false;
  }
}

bool is_convertible(unsigned dtype) {
  return is_float(dtype) || (is_integer(dtype) && element_bytes(dtype) <= 4);
}

float widen_one(unsigned dtype, const std::byte* src, uint8_t bias) {
  switch (dtype) {
    case NEURON_DTYPE_F32:
    case NEURON_DTYPE_F32R:
      return read<float>(src);
    case NEURON_DTYPE_TF32:
      return std::bit_cast<float>(drop_low_bits(read<uint32_t>(src), kTf32DroppedBits, {}, 0));
    case NEURON_DTYPE_BF16:
      return std::bit_cast<float>(static_cast<uint32_t>(read<uint16_t>(src)) << 16);
    case NEURON_DTYPE_F16:
      return base::widen(base::kFp16, read<uint16_t>(src));
    case NEURON_DTYPE_F8E3:
    case NEURON_DTYPE_F8E4:
    case NEURON_DTYPE_F8E5:
    case NEURON_DTYPE_F8E4FN:
      return base::widen(with_bias(dtype, bias), read<uint8_t>(src));
    case NEURON_DTYPE_I8:
      return read<int8_t>(src);
    case NEURON_DTYPE_U8:
      return read<uint8_t>(src);
    case NEURON_DTYPE_I16:
      return read<int16_t>(src);
    case NEURON_DTYPE_U16:
      return read<uint16_t>(src);
    case NEURON_DTYPE_I32:
      return i32_to_f32(read<int32_t>(src));
    case NEURON_DTYPE_U32:
      return u32_to_f32(read<uint32_t>(src));
    default:
      return 0.0f;
  }
}

void narrow_one(unsigned dtype, float value, std::byte* dst, const NarrowMode& mode,
                uint32_t random) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  switch (dtype) {
    case NEURON_DTYPE_F32:
    case NEURON_DTYPE_F32R:
      write(dst, mode.saturate ? saturate_f32(value) : value);
      break;
    case NEURON_DTYPE_TF32:
      write(dst, drop_low_bits(bits, kTf32DroppedBits, mode, random));
      break;
    case NEURON_DTYPE_BF16:
      write(dst, static_cast<uint16_t>(drop_low_bits(bits, 16, mode, random) >> 16));
      break;
    case NEURON_DTYPE_F16:
      write(dst, static_cast<uint16_t>(base::narrow(base::kFp16, value, narrowing(mode, random))));
      break;
    case NEURON_DTYPE_F8E3:
    case NEURON_DTYPE_F8E4:
    case NEURON_DTYPE_F8E5:
    case NEURON_DTYPE_F8E4FN:
      write(dst, static_cast<uint8_t>(
                     base::narrow(with_bias(dtype, mode.bias), value, narrowing(mode, random))));
      break;
    case NEURON_DTYPE_I8:
      write(dst, to_integer<int8_t>(value));
      break;
    case NEURON_DTYPE_U8:
      write(dst, to_integer<uint8_t>(value));
      break;
    case NEURON_DTYPE_I16:
      write(dst, to_integer<int16_t>(value));
      break;
    case NEURON_DTYPE_U16:
      write(dst, to_integer<uint16_t>(value));
      break;
    case NEURON_DTYPE_I32:
      write(dst, to_integer<int32_t>(value));
      break;
    case NEURON_DTYPE_U32:
      write(dst, to_integer<uint32_t>(value));
      break;
    default:
      break;
  }
}

namespace {

constexpr size_t kWords = 256;  // random words that are made at a time

void fill_byte_table(unsigned dtype, uint8_t bias, float* table) {
  for (unsigned code = 0; code < 256; ++code) {
    const std::byte byte{static_cast<uint8_t>(code)};
    table[code] = widen_one(dtype, &byte, bias);
  }
}

// The values of all codes of a one-byte type, computed once; null if the exponent bias is not the
// default.
const float* byte_table(unsigned dtype, uint8_t bias) {
  static constexpr unsigned kTypes[] = {NEURON_DTYPE_I8,   NEURON_DTYPE_U8,   NEURON_DTYPE_F8E3,
                                        NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5, NEURON_DTYPE_F8E4FN};
  struct Tables {
    float values[std::size(kTypes)][256];
  };
  static const Tables tables = [] {
    Tables all;
    for (size_t t = 0; t < std::size(kTypes); ++t) fill_byte_table(kTypes[t], 0, all.values[t]);
    return all;
  }();
  for (size_t t = 0; t < std::size(kTypes) && bias == 0; ++t) {
    if (kTypes[t] == dtype) return tables.values[t];
  }
  return nullptr;
}

}  // namespace

void widen(unsigned dtype, const std::byte* src, ptrdiff_t step, float* dst, size_t n,
           uint8_t bias) {
  if (n == 0) return;
  if (step == 0) {
    std::fill(dst, dst + n, widen_one(dtype, src, bias));
    return;
  }
  if (step == 1 && (dtype == NEURON_DTYPE_F32 || dtype == NEURON_DTYPE_F32R)) {
    std::memcpy(dst, src, n * sizeof(float));
    return;
  }
  if (step == 1 && dtype == NEURON_DTYPE_BF16) {
    widen_bf16(src, dst, n);
    return;
  }
  const ptrdiff_t stride = step * static_cast<ptrdiff_t>(element_bytes(dtype));
  if (element_bytes(dtype) == 1) {
    const float* table = byte_table(dtype, bias);
    float own[256];
    if (table == nullptr && n > kByteTable) {
      fill_byte_table(dtype, bias, own);
      table = own;
    }
    if (table != nullptr) {
      for (size_t i = 0; i < n; ++i, src += stride) dst[i] = table[static_cast<uint8_t>(*src)];
      return;
    }
  }
  if (dtype == NEURON_DTYPE_F16 && step == 1) {
    widen_f16(src, dst, n);
    return;
  }
  for (size_t i = 0; i < n; ++i, src += stride) dst[i] = widen_one(dtype, src, bias);
}

void narrow(unsigned dtype, const float* src, std::byte* dst, ptrdiff_t step, size_t n,
            const NarrowMode& mode, RandomStream* random) {
  if (n == 0) return;
  NarrowMode effective = mode;
  if (!random) effective.rounding = Rounding::kNearestEven;
  const bool stochastic = effective.rounding == Rounding::kStochastic;
  const bool plain = step == 1 && !effective.saturate && !stochastic;
  if (plain && (dtype == NEURON_DTYPE_F32 || dtype == NEURON_DTYPE_F32R)) {
    std::memcpy(dst, src, n * sizeof(float));
    return;
  }
  if (plain && dtype == NEURON_DTYPE_BF16) {
    narrow_bf16(src, dst, n);
    return;
  }
  if (plain && dtype == NEURON_DTYPE_F16) {
    narrow_f16(src, dst, n);
    return;
  }
  const ptrdiff_t stride = step * static_cast<ptrdiff_t>(element_bytes(dtype));
  if (!stochastic) {
    for (size_t i = 0; i < n; ++i, dst += stride) narrow_one(dtype, src[i], dst, effective);
    return;
  }
  uint32_t words[kWords];
  for (size_t first = 0; first < n; first += kWords) {
    const size_t count = std::min(kWords, n - first);
    random->fill(words, count);
    for (size_t i = 0; i < count; ++i, dst += stride) {
      narrow_one(dtype, src[first + i], dst, effective, words[i]);
    }
  }
}

}  // namespace neuron::numerics
