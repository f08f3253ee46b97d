// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/f8_simd.h"

#include <bit>

#include "hw/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/f8_simd.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef NEURON_F8_SIMD_SHARED
#define NEURON_F8_SIMD_SHARED
namespace neuron::numerics {

// A format of up to 8 bits, and which of its codes are no numbers.
struct CodeFormat {
  int bits;      // of a code
  int mantissa;  // bits of it
  int bias;
  int infinity;   // the code of infinity; above the largest code: there is none
  int first_nan;  // the smallest code of a NaN; above the largest: there is none
};

}  // namespace neuron::numerics
#endif

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

HWY_NOINLINE size_t f8_kernel(const CodeFormat&, const std::byte*, uint16_t*, size_t) { return 0; }
HWY_NOINLINE size_t scaled_kernel(const CodeFormat&, bool, unsigned, const std::byte*,
                                  const std::byte*, uint16_t*, size_t) {
  return 0;
}

#else

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::ScalableTag<int32_t>;
using Floats = hn::RebindToFloat<Words>;
using Halves = hn::Rebind<uint16_t, Words>;
using Bytes = hn::Rebind<uint8_t, Words>;
using Word = hn::Vec<Words>;

constexpr int kInfinity = 0x7F800000, kQuiet = 0x00400000, kOne = 1 << 23;

// Numbers without sign, as fp32 bits, and the sign in bit 31.
struct Decoded {
  Word magnitude, sign;
};

// Zero-extended codes to fp32; infinities and NaN are put in by `special`.
HWY_INLINE Decoded decode(const CodeFormat& f, Word code) {
  const Words d;
  const auto largest = hn::Set(d, (1 << (f.bits - 1)) - 1);
  const Word magnitude = hn::And(code, largest);
  const Word sign = hn::ShiftLeftSame(hn::AndNot(largest, code), 32 - f.bits);
  const Word normal =
      hn::Add(hn::ShiftLeftSame(magnitude, 23 - f.mantissa), hn::Set(d, (127 - f.bias) * kOne));
  // A subnormal is its whole mantissa times a power of two.
  const float unit = std::bit_cast<float>((127 + 1 - f.bias - f.mantissa) * kOne);
  const Word small =
      hn::BitCast(d, hn::Mul(hn::ConvertTo(Floats(), magnitude), hn::Set(Floats(), unit)));
  const auto is_small = hn::Lt(magnitude, hn::Set(d, 1 << f.mantissa));
  return {hn::IfThenElse(is_small, small, normal), sign};
}

// Replaces what is no number; `code` without its sign.
HWY_INLINE Word special(const CodeFormat& f, Word code, Word magnitude) {
  const Words d;
  const Word payload =
      hn::ShiftLeftSame(hn::And(code, hn::Set(d, (1 << f.mantissa) - 1)), 23 - f.mantissa);
  const Word nan = hn::Or(payload, hn::Set(d, kInfinity | kQuiet));
  magnitude =
      hn::IfThenElse(hn::Eq(code, hn::Set(d, f.infinity)), hn::Set(d, kInfinity), magnitude);
  return hn::IfThenElse(hn::Gt(code, hn::Set(d, f.first_nan - 1)), nan, magnitude);
}

HWY_INLINE Word without_sign(const CodeFormat& f, Word code) {
  return hn::And(code, hn::Set(Words(), (1 << (f.bits - 1)) - 1));
}

// The upper halves of two vectors.
HWY_INLINE void store_upper(Word low, Word high, uint16_t* out) {
  const hn::Repartition<uint16_t, Words> pairs;
  hn::StoreU(hn::ConcatOdd(pairs, hn::BitCast(pairs, high), hn::BitCast(pairs, low)), pairs, out);
}

HWY_NOINLINE size_t f8_kernel(const CodeFormat& f, const std::byte* src, uint16_t* out, size_t n) {
  const Words d;
  const Bytes bytes;
  const size_t lanes = hn::Lanes(d);
  const auto* from = reinterpret_cast<const uint8_t*>(src);
  const auto convert = [&](size_t at) {
    const Word code = hn::PromoteTo(d, hn::LoadU(bytes, from + at));
    const Decoded value = decode(f, code);
    return hn::Or(special(f, without_sign(f, code), value.magnitude), value.sign);
  };
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const Word low = convert(i);
    store_upper(low, convert(i + lanes), out + i);
  }
  return i;
}

HWY_NOINLINE size_t scaled_kernel(const CodeFormat& f, bool halves, unsigned which,
                                  const std::byte* elements, const std::byte* scales, uint16_t* out,
                                  size_t n) {
  const Words d;
  const size_t lanes = hn::Lanes(d);
  const int shift = static_cast<int>(which) * f.bits;
  const Word mask = hn::Set(d, (1 << f.bits) - 1);
  const auto* factors = reinterpret_cast<const uint8_t*>(scales);
  const auto convert = [&](size_t at) {
    Word word;
    if (halves) {
      word =
          hn::PromoteTo(d, hn::LoadU(Halves(), reinterpret_cast<const uint16_t*>(elements) + at));
    } else {
      word = hn::LoadU(d, reinterpret_cast<const int32_t*>(elements) + at);
    }
    const Word code = hn::And(hn::ShiftRightSame(word, shift), mask);
    const Word scale = hn::PromoteTo(d, hn::LoadU(Bytes(), factors + at));
    const Decoded value = decode(f, code);
    const Word power = hn::ShiftLeft<23>(hn::Sub(scale, hn::Set(d, NEURON_MX_SCALE_BIAS)));
    // Above the range a sum passes 2^31 and becomes negative, as one below the range is: whether
    // the exponent is too large is asked before.
    const Word exponent = hn::Add(hn::ShiftRight<23>(value.magnitude),
                                  hn::Sub(scale, hn::Set(d, NEURON_MX_SCALE_BIAS)));
    Word moved = hn::Add(value.magnitude, power);
    moved = hn::IfThenElse(hn::Gt(exponent, hn::Set(d, 254)), hn::Set(d, kInfinity), moved);
    moved = hn::IfThenElse(hn::Lt(exponent, hn::Set(d, 1)), hn::Zero(d), moved);
    const Word bare = without_sign(f, code);
    moved = hn::IfThenElse(hn::Eq(bare, hn::Zero(d)), hn::Zero(d), moved);
    const Word nan = hn::Set(d, kInfinity | kQuiet);
    moved = hn::IfThenElse(hn::Eq(bare, hn::Set(d, f.infinity)), hn::Set(d, kInfinity), moved);
    const auto is_nan = hn::Or(hn::Eq(scale, hn::Set(d, NEURON_MX_SCALE_NAN)),
                               hn::Gt(bare, hn::Set(d, f.first_nan - 1)));
    return hn::IfThenElse(is_nan, nan, hn::Or(moved, value.sign));
  };
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const Word low = convert(i);
    store_upper(low, convert(i + lanes), out + i);
  }
  return i;
}

#endif

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "driver/emulator/numerics/code_tables.h"
#include "driver/emulator/numerics/simd_path.h"

namespace neuron::numerics {
namespace {

constexpr int kNone = 256;  // above every code

CodeFormat format_of(unsigned dtype) {
  switch (dtype) {
    case NEURON_DTYPE_F8E3:
      return {8, 4, 3, 0x70, 0x71};
    case NEURON_DTYPE_F8E4:
      return {8, 3, 7, 0x78, 0x79};
    case NEURON_DTYPE_F8E5:
    case NEURON_DTYPE_F8E5X4:
      return {8, 2, 15, 0x7C, 0x7D};
    case NEURON_DTYPE_F4X4:
      return {4, 1, 1, kNone, kNone};
    default:
      return {8, 3, 7, kNone, 0x7F};
  }
}

}  // namespace

size_t f8_to_bf16(unsigned dtype, const std::byte* src, uint16_t* out, size_t n) {
  if (code_tables::available()) {
    code_tables::to_bf16(dtype, src, out, n);
    return n;
  }
  const CodeFormat format = format_of(dtype);
  return NEURON_ON_SIMD_PATH(f8_kernel, format, src, out, n);
}

size_t scaled_to_bf16(unsigned x4_type, const std::byte* elements, unsigned code,
                      const std::byte* scales, uint16_t* out, size_t n) {
  if (code_tables::available()) {
    code_tables::scaled_to_bf16(x4_type, elements, code, scales, out, n);
    return n;
  }
  const CodeFormat format = format_of(x4_type);
  return NEURON_ON_SIMD_PATH(scaled_kernel, format, x4_type == NEURON_DTYPE_F4X4, code, elements,
                             scales, out, n);
}

}  // namespace neuron::numerics
#endif
