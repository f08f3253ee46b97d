// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/dtype_simd.h"

#include <cstdint>
#include <cstring>

#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/float_environment.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/dtype_simd.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::ScalableTag<uint32_t>;
using Halves = hn::Rebind<uint16_t, Words>;

HWY_NOINLINE void widen_bf16_kernel(const std::byte* src, float* dst, size_t n) {
  const Words d;
  const Halves half;
  const size_t lanes = hn::Lanes(d);
  const uint16_t* from = reinterpret_cast<const uint16_t*>(src);
  uint32_t* to = reinterpret_cast<uint32_t*>(dst);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, from + i))), d, to + i);
  }
  for (; i < n; ++i) {
    uint16_t code;
    std::memcpy(&code, src + 2 * i, 2);
    const uint32_t bits = static_cast<uint32_t>(code) << 16;
    std::memcpy(dst + i, &bits, 4);
  }
}

// fp32 bits whose upper half is the bf16: nearest even, a NaN quiet with its upper payload bits.
HWY_INLINE hn::Vec<Words> rounded_to_bf16(hn::Vec<Words> bits) {
  const Words d;
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(d, 0x7FFFu)), odd);
  const auto quiet = hn::Or(bits, hn::Set(d, 0x00400000u));
  // An integer comparison, because a float comparison depends on MXCSR.
  const auto size = hn::Add(bits, bits);
  return hn::IfThenElse(hn::Gt(size, hn::Set(d, 0xFF000000u)), quiet, rounded);
}

HWY_NOINLINE void narrow_bf16_kernel(const float* src, std::byte* dst, size_t n) {
  const Words d;
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const size_t lanes = hn::Lanes(d);
  const uint32_t* from = reinterpret_cast<const uint32_t*>(src);
  // The upper halves of two vectors are picked by one shuffle.
  const hn::Repartition<uint16_t, Words> pairs;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto low = hn::BitCast(pairs, rounded_to_bf16(hn::LoadU(d, from + i)));
    const auto high = hn::BitCast(pairs, rounded_to_bf16(hn::LoadU(d, from + i + lanes)));
    hn::StoreU(hn::ConcatOdd(pairs, high, low), pairs, reinterpret_cast<uint16_t*>(dst) + i);
  }
#endif
  for (; i < n; ++i) {
    uint32_t lane[hn::MaxLanes(d)] = {};
    std::memcpy(lane, src + i, 4);
    hn::StoreU(rounded_to_bf16(hn::LoadU(d, lane)), d, lane);
    const uint16_t code = static_cast<uint16_t>(lane[0] >> 16);
    std::memcpy(dst + 2 * i, &code, 2);
  }
}

#if HWY_TARGET == HWY_SCALAR

HWY_NOINLINE size_t widen_f16_kernel(const std::byte*, float*, size_t) { return 0; }
HWY_NOINLINE size_t narrow_f16_kernel(const float*, std::byte*, size_t) { return 0; }

#else

using Floats = hn::ScalableTag<float>;
using HalfFloats = hn::Rebind<hwy::float16_t, Floats>;

// Both return how many elements they converted: whole vectors.
HWY_NOINLINE size_t widen_f16_kernel(const std::byte* src, float* dst, size_t n) {
  const Floats d;
  const HalfFloats half;
  const size_t lanes = hn::Lanes(d);
  const auto* from = reinterpret_cast<const hwy::float16_t*>(src);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, from + i)), d, dst + i);
  }
  return i;
}

HWY_NOINLINE size_t narrow_f16_kernel(const float* src, std::byte* dst, size_t n) {
  const Floats d;
  const HalfFloats half;
  const Words bits;
  const size_t lanes = hn::Lanes(d);
  auto* to = reinterpret_cast<hwy::float16_t*>(dst);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::BitCast(bits, hn::LoadU(d, src + i));
    const auto size = hn::And(value, hn::Set(bits, 0x7FFFFFFFu));
    const auto nan = hn::Gt(size, hn::Set(bits, 0x7F800000u));
    // The format's quiet NaN, with its sign, has no payload.
    const auto quiet =
        hn::Or(hn::And(value, hn::Set(bits, 0x80000000u)), hn::Set(bits, 0x7FC00000u));
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(d, hn::IfThenElse(nan, quiet, value))), half, to + i);
  }
  return i;
}

#endif

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::numerics {

void widen_bf16(const std::byte* src, float* dst, size_t n) {
  NEURON_ON_SIMD_PATH(widen_bf16_kernel, src, dst, n);
}
void narrow_bf16(const float* src, std::byte* dst, size_t n) {
  NEURON_ON_SIMD_PATH(narrow_bf16_kernel, src, dst, n);
}

// The x86 conversions raise flags and, when narrowing, depend on MXCSR.
void widen_f16(const std::byte* src, float* dst, size_t n) {
  const FloatScope environment(Subnormals::kKeep);
  size_t i = NEURON_ON_SIMD_PATH(widen_f16_kernel, src, dst, n);
  for (; i < n; ++i) dst[i] = widen_one(NEURON_DTYPE_F16, src + 2 * i);
}
void narrow_f16(const float* src, std::byte* dst, size_t n) {
  const FloatScope environment(Subnormals::kKeep);
  size_t i = NEURON_ON_SIMD_PATH(narrow_f16_kernel, src, dst, n);
  for (; i < n; ++i) narrow_one(NEURON_DTYPE_F16, src[i], dst + 2 * i);
}

}  // namespace neuron::numerics
#endif
