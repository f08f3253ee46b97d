// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/udma_reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/float_environment.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/chip/udma_reduce.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef DRIVER_EMULATOR_CHIP_UDMA_REDUCE_ONCE
#define DRIVER_EMULATOR_CHIP_UDMA_REDUCE_ONCE
namespace neuron::chip {
namespace {

constexpr uint32_t kMostSources = 64;
constexpr size_t kWidestVector = 64;

struct ReduceWork {
  Reduction how;
  const std::byte* const* from;
  uint32_t sources;
  std::byte* to;
  size_t bytes;
};

}  // namespace
}  // namespace neuron::chip
#endif

HWY_BEFORE_NAMESPACE();
namespace neuron::chip::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;  // NOLINT(misc-unused-alias-decls): one lane does without it

#if HWY_TARGET == HWY_SCALAR

// With one lane, the plain loops do all the work.
size_t reduce_vectors(const ReduceWork&) { return 0; }

#else

using Bytes = hn::ScalableTag<uint8_t>;
using Words = hn::ScalableTag<uint32_t>;
using Floats = hn::ScalableTag<float>;
using Raw = hn::Vec<Bytes>;
using Values = hn::Vec<Floats>;

HWY_INLINE Values quiet_nan() { return hn::BitCast(Floats(), hn::Set(Words(), 0x7FC00000u)); }

struct Sum {
  static HWY_INLINE Values floats(Values a, Values b) { return hn::Add(a, b); }
  template <class D, class V>
  static HWY_INLINE V integers(D, V a, V b) {
    return hn::Add(a, b);
  }
};

template <bool kMost>
struct Pick {
  static HWY_INLINE Values floats(Values a, Values b) {
    const auto chosen = hn::IfThenElse(kMost ? hn::Gt(a, b) : hn::Lt(a, b), a, b);
    // Values that compare equal differ at most in the sign of zero.
    const auto same = hn::IfThenElse(hn::Eq(a, b), kMost ? hn::And(a, b) : hn::Or(a, b), chosen);
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, same));
  }
  template <class D, class V>
  static HWY_INLINE V integers(D, V a, V b) {
    if constexpr (kMost) {
      return hn::Max(a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Product {
  static HWY_INLINE Values floats(Values a, Values b) { return hn::Mul(a, b); }
  template <class D, class V>
  static HWY_INLINE V integers(D d, V a, V b) {
    using T = hn::TFromD<D>;
    if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
      return hn::Mul(a, b);
    } else if constexpr (sizeof(T) == 1) {
      const hn::Repartition<uint16_t, D> wide;
      const auto low = hn::Set(wide, uint16_t{0x00FF});
      const auto x = hn::BitCast(wide, a), y = hn::BitCast(wide, b);
      const auto lower = hn::And(hn::Mul(x, y), low);
      const auto upper = hn::Mul(hn::ShiftRight<8>(x), hn::AndNot(low, y));
      return hn::BitCast(d, hn::Or(lower, hn::AndNot(low, upper)));
    } else {
      // (ah 2^32 + al) (bh 2^32 + bl) modulo 2^64
      const hn::Repartition<uint64_t, D> wide;
      const hn::Repartition<uint32_t, D> narrow;
      const auto x = hn::BitCast(wide, a), y = hn::BitCast(wide, b);
      const auto half = [&](auto v) HWY_ATTR { return hn::BitCast(narrow, v); };
      const auto cross = hn::Add(hn::MulEven(half(hn::ShiftRight<32>(x)), half(y)),
                                 hn::MulEven(half(x), half(hn::ShiftRight<32>(y))));
      return hn::BitCast(
          d, hn::Add(hn::MulEven(half(x), half(y)), hn::ShiftLeft<32>(hn::BitCast(wide, cross))));
    }
  }
};

// A codec converts bytes to values and back.
template <class T>
struct Integer {
  using D = hn::ScalableTag<T>;
  using Value = hn::Vec<D>;
  static HWY_INLINE Value read(Raw raw) { return hn::BitCast(D(), raw); }
  static HWY_INLINE Raw write(Value v, Values) { return hn::BitCast(Bytes(), v); }
  template <class Op>
  static HWY_INLINE Value combine(Value a, Value b) {
    return Op::integers(D(), a, b);
  }
};

template <bool kDivides>
HWY_INLINE Values last(Values v, Values divisor) {
  if constexpr (kDivides) v = hn::Div(v, divisor);
  return hn::IfThenElse(hn::IsNaN(v), quiet_nan(), v);
}

template <bool kDivides>
struct Single {
  using Value = Values;
  static HWY_INLINE Value read(Raw raw) { return hn::BitCast(Floats(), raw); }
  static HWY_INLINE Raw write(Value v, Values divisor) {
    return hn::BitCast(Bytes(), last<kDivides>(v, divisor));
  }
  template <class Op>
  static HWY_INLINE Value combine(Value a, Value b) {
    return Op::floats(a, b);
  }
};

struct TwoValues {
  Values a, b;
};

// Splits into elements of even and of odd number, which needs no shuffles.
template <bool kDivides>
struct Brain {
  using Value = TwoValues;
  static HWY_INLINE Value read(Raw raw) {
    const auto words = hn::BitCast(Words(), raw);
    const auto upper = hn::And(words, hn::Set(Words(), 0xFFFF0000u));
    return {hn::BitCast(Floats(), hn::ShiftLeft<16>(words)), hn::BitCast(Floats(), upper)};
  }
  // The upper halves hold the result. The quiet NaN causes no carry.
  static HWY_INLINE hn::Vec<Words> rounded(Values v) {
    const auto bits = hn::BitCast(Words(), v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(Words(), 1u));
    return hn::Add(hn::Add(bits, odd), hn::Set(Words(), 0x7FFFu));
  }
  static HWY_INLINE Raw write(Value v, Values divisor) {
    const auto even = hn::ShiftRight<16>(rounded(last<kDivides>(v.a, divisor)));
    const auto odd = rounded(last<kDivides>(v.b, divisor));
    const auto mask = hn::Set(Words(), 0xFFFF0000u);
    return hn::BitCast(Bytes(), hn::Or(even, hn::And(odd, mask)));
  }
  template <class Op>
  static HWY_INLINE Value combine(Value x, Value y) {
    return {Op::floats(x.a, y.a), Op::floats(x.b, y.b)};
  }
};

template <bool kDivides>
struct Half {
  using Value = TwoValues;
  using Codes = hn::Repartition<uint16_t, Bytes>;
  using HalfCodes = hn::Half<Codes>;
  using HalfFloats = hn::Rebind<hwy::float16_t, Floats>;
  static HWY_INLINE Value read(Raw raw) {
    const auto codes = hn::BitCast(Codes(), raw);
    const auto low = hn::BitCast(HalfFloats(), hn::LowerHalf(HalfCodes(), codes));
    const auto high = hn::BitCast(HalfFloats(), hn::UpperHalf(HalfCodes(), codes));
    return {hn::PromoteTo(Floats(), low), hn::PromoteTo(Floats(), high)};
  }
  static HWY_INLINE Raw write(Value v, Values divisor) {
    const auto low = hn::DemoteTo(HalfFloats(), last<kDivides>(v.a, divisor));
    const auto high = hn::DemoteTo(HalfFloats(), last<kDivides>(v.b, divisor));
    return hn::BitCast(Bytes(), hn::Combine(Codes(), hn::BitCast(HalfCodes(), high),
                                            hn::BitCast(HalfCodes(), low)));
  }
  template <class Op>
  static HWY_INLINE Value combine(Value x, Value y) {
    return {Op::floats(x.a, y.a), Op::floats(x.b, y.b)};
  }
};

struct FourValues {
  Values v[4];
};

// An fp8 type with kMantissa mantissa bits; the other bits are sign and exponent. A code in the
// upper byte of a half-precision number, shifted down until the mantissas align, has its value up
// to a power of two. The processor's conversion handles subnormals, too.
template <int kMantissa, bool kDivides>
struct Small {
  static constexpr int kExponent = 7 - kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  using Value = FourValues;
  using Codes = hn::Repartition<uint16_t, Bytes>;
  using Signed = hn::Repartition<int16_t, Bytes>;
  using HalfCodes = hn::Half<Codes>;
  using HalfFloats = hn::Rebind<hwy::float16_t, Floats>;

  // `codes` in the upper bytes; the lower ones are 0.
  static HWY_INLINE void read_half(hn::Vec<Codes> codes, Values& low, Values& high) {
    constexpr int kDown = 5 - kExponent;
    if constexpr (kDown != 0) {
      constexpr uint16_t kCopiesOfSign = static_cast<uint16_t>(0x7FFF & ~(0x7FFF >> kDown));
      codes = hn::AndNot(hn::Set(Codes(), kCopiesOfSign),
                         hn::BitCast(Codes(), hn::ShiftRight<kDown>(hn::BitCast(Signed(), codes))));
    }
    low = value_of(
        hn::PromoteTo(Floats(), hn::BitCast(HalfFloats(), hn::LowerHalf(HalfCodes(), codes))));
    high = value_of(
        hn::PromoteTo(Floats(), hn::BitCast(HalfFloats(), hn::UpperHalf(HalfCodes(), codes))));
  }
  static HWY_INLINE Values value_of(Values half) {
    if constexpr (kExponent == 5) return half;
    const Values v = hn::Mul(half, hn::Set(Floats(), static_cast<float>(1 << (15 - kBias))));
    // A code with the highest exponent is infinity or, with a mantissa, NaN.
    const auto special =
        hn::Ge(hn::Abs(v), hn::Set(Floats(), static_cast<float>(1 << (kBias + 1))));
    const auto exponent = hn::BitCast(Floats(), hn::Set(Words(), 0x7F800000u));
    return hn::IfThenElse(special, hn::Or(v, exponent), v);
  }
  static HWY_INLINE Value read(Raw raw) {
    const auto codes = hn::BitCast(Codes(), raw);
    FourValues value;
    read_half(hn::ShiftLeft<8>(codes), value.v[0], value.v[1]);
    read_half(hn::And(codes, hn::Set(Codes(), uint16_t{0xFF00})), value.v[2], value.v[3]);
    return value;
  }

  // Rounds to nearest even; too large values become infinity. `v` is not a negative NaN.
  static HWY_INLINE hn::Vec<Words> code_of(Values v) {
    const Words d;
    constexpr int kDrop = 23 - kMantissa;
    constexpr uint32_t kFirstNormal = static_cast<uint32_t>(128 - kBias) << 23;
    const auto bits = hn::BitCast(d, v);
    const auto magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFu));
    const auto sign = hn::ShiftRight<24>(hn::Xor(bits, magnitude));
    const auto odd = hn::And(hn::ShiftRight<kDrop>(magnitude), hn::Set(d, 1u));
    const auto up = hn::Add(hn::Set(d, (1u << (kDrop - 1)) - 1), odd);
    const auto normal =
        hn::Min(hn::Sub(hn::ShiftRight<kDrop>(hn::Add(magnitude, up)),
                        hn::Set(d, static_cast<uint32_t>(127 - kBias) << kMantissa)),
                hn::Set(d, kInfinity));
    // Below the normal numbers, an addition rounds: the last place of its sum is that of the
    // format. Subnormals of fp32 are far smaller, and slow.
    constexpr uint32_t kMagic = static_cast<uint32_t>(128 - kBias + kDrop) << 23;
    const auto large = hn::IfThenZeroElse(hn::Lt(magnitude, hn::Set(d, 0x00800000u)), magnitude);
    const auto rounded =
        hn::Add(hn::BitCast(Floats(), large), hn::BitCast(Floats(), hn::Set(d, kMagic)));
    const auto small = hn::Sub(hn::BitCast(d, rounded), hn::Set(d, kMagic));
    const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, kFirstNormal)), small, normal);
    const auto code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7F800000u)),
                                     hn::Set(d, kInfinity | 1u << (kMantissa - 1)), finite);
    return hn::Or(sign, code);
  }
  static HWY_INLINE hn::Vec<Codes> write_half(Values low, Values high, Values divisor) {
    const hn::Rebind<int32_t, Floats> wide;
    const auto narrow = [&](Values v) HWY_ATTR {
      return hn::DemoteTo(HalfCodes(), hn::BitCast(wide, code_of(last<kDivides>(v, divisor))));
    };
    return hn::Combine(Codes(), narrow(high), narrow(low));
  }
  static HWY_INLINE Raw write(Value value, Values divisor) {
    const auto even = write_half(value.v[0], value.v[1], divisor);
    const auto odd = write_half(value.v[2], value.v[3], divisor);
    return hn::BitCast(Bytes(), hn::Or(even, hn::ShiftLeft<8>(odd)));
  }
  template <class Op>
  static HWY_INLINE Value combine(Value x, Value y) {
    return {{Op::floats(x.v[0], y.v[0]), Op::floats(x.v[1], y.v[1]), Op::floats(x.v[2], y.v[2]),
             Op::floats(x.v[3], y.v[3])}};
  }
};
template <bool kDivides>
using Small3 = Small<4, kDivides>;
template <bool kDivides>
using Small4 = Small<3, kDivides>;
template <bool kDivides>
using Small5 = Small<2, kDivides>;

// Two vectors in each turn, so that their loads overlap. kSources 0: any number.
template <class Codec, class Op, uint32_t kSources>
HWY_INLINE void loop_over(const ReduceWork& work) {
  const Bytes d;
  const size_t lanes = hn::Lanes(d);
  const uint32_t sources = kSources != 0 ? kSources : work.sources;
  const Values divisor = hn::Set(Floats(), static_cast<float>(work.how.divisor));
  const auto load = [&](uint32_t s, size_t at) HWY_ATTR {
    return Codec::read(hn::LoadU(d, reinterpret_cast<const uint8_t*>(work.from[s]) + at));
  };
  auto* const to = reinterpret_cast<uint8_t*>(work.to);
  size_t at = 0;
  for (; at + 2 * lanes <= work.bytes; at += 2 * lanes) {
    auto first = load(0, at), second = load(0, at + lanes);
    for (uint32_t s = 1; s < sources; ++s) {
      first = Codec::template combine<Op>(first, load(s, at));
      second = Codec::template combine<Op>(second, load(s, at + lanes));
    }
    hn::StoreU(Codec::write(first, divisor), d, to + at);
    hn::StoreU(Codec::write(second, divisor), d, to + at + lanes);
  }
  for (; at + lanes <= work.bytes; at += lanes) {
    auto value = load(0, at);
    for (uint32_t s = 1; s < sources; ++s) {
      value = Codec::template combine<Op>(value, load(s, at));
    }
    hn::StoreU(Codec::write(value, divisor), d, to + at);
  }
}

template <class Codec, class Op>
HWY_NOINLINE void loop(const ReduceWork& work) {
  return work.sources == 2 ? loop_over<Codec, Op, 2>(work) : loop_over<Codec, Op, 0>(work);
}

template <class Codec>
void with_reduction(const ReduceWork& work) {
  switch (work.how.reduction) {
    case NEURON_DMA_REDUCE_PRODUCT:
      return loop<Codec, Product>(work);
    case NEURON_DMA_REDUCE_MIN:
      return loop<Codec, Pick<false> >(work);
    case NEURON_DMA_REDUCE_MAX:
      return loop<Codec, Pick<true> >(work);
    default:
      return loop<Codec, Sum>(work);
  }
}

template <template <bool> class Codec>
void with_divisor(const ReduceWork& work) {
  return work.how.divisor != 0 ? loop<Codec<true>, Sum>(work) : with_reduction<Codec<false> >(work);
}

void with_type(const ReduceWork& work) {
  switch (work.how.dtype) {
    case NEURON_DTYPE_F32:
      return with_divisor<Single>(work);
    case NEURON_DTYPE_BF16:
      return with_divisor<Brain>(work);
    case NEURON_DTYPE_F16:
      return with_divisor<Half>(work);
    case NEURON_DTYPE_F8E3:
      return with_divisor<Small3>(work);
    case NEURON_DTYPE_F8E4:
      return with_divisor<Small4>(work);
    case NEURON_DTYPE_F8E5:
      return with_divisor<Small5>(work);
    case NEURON_DTYPE_U8:
      return with_reduction<Integer<uint8_t> >(work);
    case NEURON_DTYPE_I8:
      return with_reduction<Integer<int8_t> >(work);
    case NEURON_DTYPE_U16:
      return with_reduction<Integer<uint16_t> >(work);
    case NEURON_DTYPE_I16:
      return with_reduction<Integer<int16_t> >(work);
    case NEURON_DTYPE_U32:
      return with_reduction<Integer<uint32_t> >(work);
    case NEURON_DTYPE_I32:
      return with_reduction<Integer<int32_t> >(work);
    case NEURON_DTYPE_U64:
      return with_reduction<Integer<uint64_t> >(work);
    default:
      return with_reduction<Integer<int64_t> >(work);
  }
}

// Returns how many bytes it has reduced: whole vectors.
size_t reduce_vectors(const ReduceWork& all) {
  ReduceWork work = all;
  work.bytes -= work.bytes % hn::Lanes(Bytes());
  if (work.bytes != 0) with_type(work);
  return work.bytes;
}

#endif

}  // namespace neuron::chip::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::chip {
namespace {

using numerics::simd_path;
using numerics::SimdPath;

// Reduces fp32 values, and types that are widened to fp32.
void reduce_floats(const ReduceWork& work) {
  constexpr size_t kChunk = 512;
  alignas(64) float sum[kChunk], next[kChunk];
  const unsigned dtype = work.how.dtype;
  const size_t width = numerics::element_bytes(dtype);
  const unsigned op = work.how.reduction == NEURON_DMA_REDUCE_PRODUCT ? NEURON_ALU_MUL
                      : work.how.reduction == NEURON_DMA_REDUCE_MIN   ? NEURON_ALU_MIN
                      : work.how.reduction == NEURON_DMA_REDUCE_MAX   ? NEURON_ALU_MAX
                                                                      : NEURON_ALU_ADD;
  numerics::RandomStream unused(0, 0, 0);
  for (size_t at = 0; at < work.bytes; at += kChunk * width) {
    const size_t n = std::min(kChunk, (work.bytes - at) / width);
    numerics::widen(dtype, work.from[0] + at, 1, sum, n);
    for (uint32_t s = 1; s < work.sources; ++s) {
      numerics::widen(dtype, work.from[s] + at, 1, next, n);
      numerics::alu(op, sum, next, sum, n);
    }
    // A division by 1 changes nothing but the bits of a NaN.
    const uint32_t divisor = std::max(1u, work.how.divisor);
    if (work.how.divisor != 0 || work.sources == 1) {
      numerics::alu_scalar(NEURON_ALU_DIV, sum, static_cast<float>(divisor), false, sum, n);
    }
    numerics::narrow(dtype, sum, work.to + at, 1, n, {}, &unused);
  }
}

template <class T>
void reduce_integers(const ReduceWork& work) {
  // Unsigned arithmetic wraps; types narrower than int are widened, because as int they could
  // overflow.
  using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  for (size_t at = 0; at < work.bytes; at += sizeof(T)) {
    T value;
    std::memcpy(&value, work.from[0] + at, sizeof(T));
    for (uint32_t s = 1; s < work.sources; ++s) {
      T next;
      std::memcpy(&next, work.from[s] + at, sizeof(T));
      switch (work.how.reduction) {
        case NEURON_DMA_REDUCE_PRODUCT:
          value = static_cast<T>(static_cast<Wide>(value) * static_cast<Wide>(next));
          break;
        case NEURON_DMA_REDUCE_MIN:
          value = std::min(value, next);
          break;
        case NEURON_DMA_REDUCE_MAX:
          value = std::max(value, next);
          break;
        default:
          value = static_cast<T>(static_cast<Wide>(value) + static_cast<Wide>(next));
      }
    }
    if (work.how.divisor != 0) {
      // A divisor may exceed the range of the type.
      if constexpr (std::is_signed_v<T>) {
        value =
            static_cast<T>(static_cast<int64_t>(value) / static_cast<int64_t>(work.how.divisor));
      } else {
        value = static_cast<T>(static_cast<uint64_t>(value) / work.how.divisor);
      }
    }
    std::memcpy(work.to + at, &value, sizeof(T));
  }
}

void reduce_plainly(const ReduceWork& work) {
  switch (work.how.dtype) {
    case NEURON_DTYPE_U8:
      return reduce_integers<uint8_t>(work);
    case NEURON_DTYPE_I8:
      return reduce_integers<int8_t>(work);
    case NEURON_DTYPE_U16:
      return reduce_integers<uint16_t>(work);
    case NEURON_DTYPE_I16:
      return reduce_integers<int16_t>(work);
    case NEURON_DTYPE_U32:
      return reduce_integers<uint32_t>(work);
    case NEURON_DTYPE_I32:
      return reduce_integers<int32_t>(work);
    case NEURON_DTYPE_U64:
      return reduce_integers<uint64_t>(work);
    case NEURON_DTYPE_I64:
      return reduce_integers<int64_t>(work);
    default:
      return reduce_floats(work);
  }
}

bool is_small(unsigned dtype) {
  return dtype == NEURON_DTYPE_F8E3 || dtype == NEURON_DTYPE_F8E4 || dtype == NEURON_DTYPE_F8E5;
}

}  // namespace

bool can_reduce(unsigned dtype) {
  return numerics::is_integer(dtype) || is_small(dtype) || dtype == NEURON_DTYPE_F32 ||
         dtype == NEURON_DTYPE_BF16 || dtype == NEURON_DTYPE_F16;
}

void reduce(const Reduction& how, const std::byte* const* from, uint32_t sources, std::byte* to,
            size_t elements) {
  ReduceWork work{how, from, sources, to, elements * numerics::element_bytes(how.dtype)};
  // Vectors cannot divide integers.
  const bool plain = how.divisor != 0 && numerics::is_integer(how.dtype);
  size_t done = 0;
  if (!plain) {
    const numerics::FloatScope environment(numerics::Subnormals::kKeep);
    done = NEURON_ON_SIMD_PATH(reduce_vectors, work);
  }
  if (done == work.bytes) return;
  const std::byte* rest[kMostSources];
  for (uint32_t s = 0; s < sources; ++s) rest[s] = from[s] + done;
  work.from = rest;
  work.to += done;
  work.bytes -= done;
  reduce_plainly(work);
}

}  // namespace neuron::chip
#endif
