// SPDX-License-Identifier: Apache-2.0
// Reductions for one SIMD target: reduction.cpp includes this once per target, after Highway.
//
// A codec converts a vector of bytes to values and back; all types share one loop. Kernels take
// whole vectors only; reduction.cpp passes the rest in padded buffers. Cannot fail.
#include <hwy/highway.h>

#include "driver/base/small_float.h"

HWY_BEFORE_NAMESPACE();
namespace neuron::ccom::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using ByteTag = hn::ScalableTag<uint8_t>;
using WordTag = hn::ScalableTag<uint32_t>;
using FloatTag = hn::ScalableTag<float>;
using Raw = hn::Vec<ByteTag>;
using Words = hn::Vec<WordTag>;
using Floats = hn::Vec<FloatTag>;

HWY_INLINE Floats quiet_nan() {
  return hn::BitCast(FloatTag(), hn::Set(WordTag(), base::kQuietNan));
}
HWY_INLINE Floats canonical(Floats v) { return hn::IfThenElse(hn::IsNaN(v), quiet_nan(), v); }

struct AddOp {
  static HWY_INLINE Floats apply(Floats a, Floats b) { return hn::Add(a, b); }
  template <class D, class V>
  static HWY_INLINE V integers(D, V a, V b) {
    return hn::Add(a, b);
  }
};

struct ProductOp {
  static HWY_INLINE Floats apply(Floats a, Floats b) { return hn::Mul(a, b); }
  template <class D, class V>
  static HWY_INLINE V integers(D d, V a, V b) {
    using T = hn::TFromD<D>;
    if constexpr (sizeof(T) == 1) {
      // Low halves of the products of even and of odd bytes.
      const hn::Repartition<uint16_t, D> pairs;
      const auto x = hn::BitCast(pairs, a), y = hn::BitCast(pairs, b);
      const auto even = hn::And(hn::Mul(x, y), hn::Set(pairs, uint16_t{0xFF}));
      const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(x), hn::ShiftRight<8>(y)));
      return hn::BitCast(d, hn::Or(even, odd));
    } else if constexpr (sizeof(T) == 8) {
      // a * b = low * low + (low * high + high * low) * 2^32, modulo 2^64.
      const hn::Repartition<uint32_t, D> halves;
      const hn::Repartition<uint64_t, D> wide;
      const auto x = hn::BitCast(halves, a), y = hn::BitCast(halves, b);
      const auto low = hn::MulEven(x, y);
      const auto cross = hn::Mul(x, hn::Shuffle2301(y));
      const auto sum = hn::Add(cross, hn::Shuffle2301(cross));
      return hn::BitCast(d, hn::Add(low, hn::ShiftLeft<32>(hn::BitCast(wide, sum))));
    } else {
      return hn::Mul(a, b);
    }
  }
};

template <bool kMaximum>
struct ExtremeOp {
  static HWY_INLINE Floats apply(Floats a, Floats b) {
    const FloatTag d;
    const auto first = kMaximum ? hn::Gt(a, b) : hn::Lt(a, b);
    auto value = hn::IfThenElse(first, a, b);
    // Where operands are equal, they are the same number, or zeros whose signs decide.
    const auto zeros = kMaximum ? hn::And(a, b) : hn::Or(a, b);
    value = hn::IfThenElse(hn::Eq(a, b), zeros, value);
    const auto nan = hn::Or(hn::VecFromMask(d, hn::IsNaN(a)), hn::VecFromMask(d, hn::IsNaN(b)));
    return hn::IfThenElse(hn::MaskFromVec(nan), quiet_nan(), value);
  }
  template <class D, class V>
  static HWY_INLINE V integers(D, V a, V b) {
    if constexpr (kMaximum) {
      return hn::Max(a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

template <class T>
struct IntegerCodec {
  using D = hn::ScalableTag<T>;
  using Value = hn::Vec<D>;
  static HWY_INLINE Value decode(Raw raw) { return hn::BitCast(D(), raw); }
  static HWY_INLINE Raw encode(Value value, Floats) { return hn::BitCast(ByteTag(), value); }
  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return Op::integers(D(), a, b);
  }
};

template <bool kDivide>
HWY_INLINE Floats finished(Floats value, Floats divisor) {
  if constexpr (kDivide) value = hn::Div(value, divisor);
  return canonical(value);
}

template <bool kDivide>
struct Fp32Codec {
  using Value = Floats;
  static HWY_INLINE Value decode(Raw raw) { return hn::BitCast(FloatTag(), raw); }
  static HWY_INLINE Raw encode(Value value, Floats divisor) {
    return hn::BitCast(ByteTag(), finished<kDivide>(value, divisor));
  }
  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return Op::apply(a, b);
  }
};

// Handles even and odd elements apart, so that no bytes change places.
template <bool kDivide>
struct Bf16Codec {
  struct Value {
    Floats even, odd;
  };
  static HWY_INLINE Value decode(Raw raw) {
    const WordTag d;
    const Words words = hn::BitCast(d, raw);
    return {hn::BitCast(FloatTag(), hn::ShiftLeft<16>(words)),
            hn::BitCast(FloatTag(), hn::And(words, hn::Set(d, 0xFFFF0000u)))};
  }
  // Rounds the bits by an addition. It cannot carry a NaN into an infinity, because NaNs are
  // canonical.
  static HWY_INLINE Words rounded(Floats value) {
    const WordTag d;
    const Words bits = hn::BitCast(d, value);
    const Words odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
    return hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFFu)));
  }
  static HWY_INLINE Raw encode(Value value, Floats divisor) {
    const WordTag d;
    const Words even = rounded(finished<kDivide>(value.even, divisor));
    const Words odd = rounded(finished<kDivide>(value.odd, divisor));
    return hn::BitCast(ByteTag(),
                       hn::Or(hn::ShiftRight<16>(even), hn::And(odd, hn::Set(d, 0xFFFF0000u))));
  }
  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return {Op::apply(a.even, b.even), Op::apply(a.odd, b.odd)};
  }
};

template <bool kDivide>
struct Fp16Codec {
  using Half = hn::Rebind<hwy::float16_t, FloatTag>;
  struct Value {
    Floats low, high;
  };
  static HWY_INLINE Value decode(Raw raw) {
    const hn::Repartition<uint16_t, ByteTag> all;
    const hn::Half<decltype(all)> half;
    const auto codes = hn::BitCast(all, raw);
    return {hn::PromoteTo(FloatTag(), hn::BitCast(Half(), hn::LowerHalf(half, codes))),
            hn::PromoteTo(FloatTag(), hn::BitCast(Half(), hn::UpperHalf(half, codes)))};
  }
  static HWY_INLINE Raw encode(Value value, Floats divisor) {
    const hn::Repartition<uint16_t, ByteTag> all;
    const hn::Half<decltype(all)> half;
    const auto low = hn::DemoteTo(Half(), finished<kDivide>(value.low, divisor));
    const auto high = hn::DemoteTo(Half(), finished<kDivide>(value.high, divisor));
    return hn::BitCast(ByteTag(),
                       hn::Combine(all, hn::BitCast(half, high), hn::BitCast(half, low)));
  }
  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return {Op::apply(a.low, b.low), Op::apply(a.high, b.high)};
  }
};

// The four elements of each 32-bit word, in one vector each; a table gives their values.
template <const base::SmallFloat& kFormat, const Fp8Values& kTable, bool kDivide>
struct Fp8Codec {
  struct Value {
    Floats v[4];
  };
  template <int kShift>
  static HWY_INLINE Floats element(Words words) {
    const WordTag d;
    const hn::RebindToSigned<WordTag> index;
    const Words codes = hn::And(hn::ShiftRight<kShift>(words), hn::Set(d, 0xFFu));
    return hn::GatherIndex(FloatTag(), kTable.data, hn::BitCast(index, codes));
  }
  static HWY_INLINE Value decode(Raw raw) {
    const Words words = hn::BitCast(WordTag(), raw);
    return {{element<0>(words), element<8>(words), element<16>(words), element<24>(words)}};
  }
  static HWY_INLINE Words code(Floats value) {
    const WordTag d;
    const FloatTag f;
    constexpr int kDrop = 23 - kFormat.mantissa_bits;
    constexpr uint32_t kFirstNormal = static_cast<uint32_t>(128 - kFormat.bias) << 23;
    const Words bits = hn::BitCast(d, value);
    const Words magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFu));
    const Words sign = hn::ShiftRight<24>(hn::Xor(bits, magnitude));
    const Words odd = hn::And(hn::ShiftRight<kDrop>(magnitude), hn::Set(d, 1u));
    const Words half = hn::Add(hn::Set(d, (1u << (kDrop - 1)) - 1), odd);
    const Words rebias =
        hn::Set(d, static_cast<uint32_t>(127 - kFormat.bias) << kFormat.mantissa_bits);
    Words normal = hn::Sub(hn::ShiftRight<kDrop>(hn::Add(magnitude, half)), rebias);
    normal = hn::Min(normal, hn::Set(d, kFormat.infinity()));
    // Below the normal numbers, an addition rounds: the last place of its sum is that of the
    // format. Subnormals of fp32 are far smaller; they are cleared because the processor is slow
    // with them.
    constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 1 - kFormat.bias + kDrop) << 23;
    const Words large = hn::IfThenZeroElse(hn::Lt(magnitude, hn::Set(d, 0x00800000u)), magnitude);
    const Words small =
        hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(f, large), hn::BitCast(f, hn::Set(d, kMagic)))),
                hn::Set(d, kMagic));
    Words result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, kFirstNormal)), small, normal);
    result =
        hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7F800000u)),
                       hn::Set(d, kFormat.infinity() | 1u << (kFormat.mantissa_bits - 1)), result);
    return hn::Or(sign, result);
  }
  static HWY_INLINE Raw encode(Value value, Floats divisor) {
    const Words a = code(finished<kDivide>(value.v[0], divisor));
    const Words b = code(finished<kDivide>(value.v[1], divisor));
    const Words c = code(finished<kDivide>(value.v[2], divisor));
    const Words e = code(finished<kDivide>(value.v[3], divisor));
    return hn::BitCast(ByteTag(), hn::Or(hn::Or(a, hn::ShiftLeft<8>(b)),
                                         hn::Or(hn::ShiftLeft<16>(c), hn::ShiftLeft<24>(e))));
  }
  template <class Op>
  static HWY_INLINE Value apply(Value a, Value b) {
    return {{Op::apply(a.v[0], b.v[0]), Op::apply(a.v[1], b.v[1]), Op::apply(a.v[2], b.v[2]),
             Op::apply(a.v[3], b.v[3])}};
  }
};

// kOperands: the number of operands, 0 for any.
template <class Codec, class Op, uint32_t kOperands, bool kStream>
HWY_NOINLINE void loop(const ReductionWork& work) {
  const ByteTag d;
  const uint64_t step = hn::Lanes(d);
  const uint32_t count = kOperands != 0 ? kOperands : work.count;
  const Floats divisor = hn::Set(FloatTag(), static_cast<float>(work.divisor));
  const auto load = [&](uint32_t k, uint64_t i) HWY_ATTR {
    return Codec::decode(hn::LoadU(d, reinterpret_cast<const uint8_t*>(work.operands[k]) + i));
  };
  for (uint64_t i = 0; i < work.bytes; i += step) {
    auto value = load(0, i);
    for (uint32_t k = 1; k < count; ++k) value = Codec::template apply<Op>(value, load(k, i));
    const Raw raw = Codec::encode(value, divisor);
    for (uint32_t r = 0; r < work.result_count; ++r) {
      uint8_t* to = reinterpret_cast<uint8_t*>(work.results[r]) + i;
      if constexpr (kStream) {
        hn::Stream(raw, d, to);
      } else {
        hn::StoreU(raw, d, to);
      }
    }
  }
}

template <class Codec, class Op>
HWY_INLINE void with_operands(const ReductionWork& work) {
  if (work.streaming) return loop<Codec, Op, 0, true>(work);
  return work.count == 2 ? loop<Codec, Op, 2, false>(work) : loop<Codec, Op, 0, false>(work);
}

template <class Codec>
HWY_INLINE void with_operation(const ReductionWork& work) {
  switch (work.reduction) {
    case CCOM_MIN:
      return with_operands<Codec, ExtremeOp<false>>(work);
    case CCOM_MAX:
      return with_operands<Codec, ExtremeOp<true>>(work);
    case CCOM_PRODUCT:
      return with_operands<Codec, ProductOp>(work);
    default:
      return with_operands<Codec, AddOp>(work);
  }
}

template <template <bool> class Codec>
HWY_INLINE void with_divisor(const ReductionWork& work) {
  if (work.divisor != 0) return with_operands<Codec<true>, AddOp>(work);
  return with_operation<Codec<false>>(work);
}

template <bool kDivide>
using Fp8E3Codec = Fp8Codec<base::kFp8E3, kFp8E3Values, kDivide>;
template <bool kDivide>
using Fp8E4Codec = Fp8Codec<base::kFp8E4, kFp8E4Values, kDivide>;
template <bool kDivide>
using Fp8E5Codec = Fp8Codec<base::kFp8E5, kFp8E5Values, kDivide>;

void run(const ReductionWork& work) {
  switch (work.type) {
    case CCOM_UINT8:
      return with_operation<IntegerCodec<uint8_t>>(work);
    case CCOM_INT8:
      return with_operation<IntegerCodec<int8_t>>(work);
    case CCOM_FP8_E3:
      return with_divisor<Fp8E3Codec>(work);
    case CCOM_FP8_E4:
      return with_divisor<Fp8E4Codec>(work);
    case CCOM_FP8_E5:
      return with_divisor<Fp8E5Codec>(work);
    case CCOM_UINT16:
      return with_operation<IntegerCodec<uint16_t>>(work);
    case CCOM_INT16:
      return with_operation<IntegerCodec<int16_t>>(work);
    case CCOM_FP16:
      return with_divisor<Fp16Codec>(work);
    case CCOM_BF16:
      return with_divisor<Bf16Codec>(work);
    case CCOM_UINT32:
      return with_operation<IntegerCodec<uint32_t>>(work);
    case CCOM_INT32:
      return with_operation<IntegerCodec<int32_t>>(work);
    case CCOM_FP32:
      return with_divisor<Fp32Codec>(work);
    case CCOM_UINT64:
      return with_operation<IntegerCodec<uint64_t>>(work);
    case CCOM_INT64:
      return with_operation<IntegerCodec<int64_t>>(work);
    case CCOM_TYPE_COUNT:
      return;
  }
}

uint64_t vector_bytes() { return hn::Lanes(ByteTag()); }

HWY_NOINLINE void stream_bytes(std::byte* destination, const std::byte* source, uint64_t bytes) {
  const ByteTag d;
  auto* to = reinterpret_cast<uint8_t*>(destination);
  const auto* from = reinterpret_cast<const uint8_t*>(source);
  const uint64_t step = hn::Lanes(d);
  uint64_t i = 0;
  for (; i + 4 * step <= bytes; i += 4 * step) {
    const Raw a = hn::LoadU(d, from + i), b = hn::LoadU(d, from + i + step);
    const Raw c = hn::LoadU(d, from + i + 2 * step), e = hn::LoadU(d, from + i + 3 * step);
    hn::Stream(a, d, to + i);
    hn::Stream(b, d, to + i + step);
    hn::Stream(c, d, to + i + 2 * step);
    hn::Stream(e, d, to + i + 3 * step);
  }
  for (; i < bytes; i += step) hn::Stream(hn::LoadU(d, from + i), d, to + i);
}

}  // namespace neuron::ccom::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
