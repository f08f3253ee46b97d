// SPDX-License-Identifier: Apache-2.0
// What the vectorised programs of this folder share, for the Highway target that is being compiled:
// short names, a fused multiply-add that is fused on every target, the canonical NaN, loops over
// arrays.
//
// Included once per target, after <hwy/highway.h>, inside no namespace. Everything here is inlined
// into the kernels of one target.
#if defined(NEURON_SIMD_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURON_SIMD_MATH_INL_H
#undef NEURON_SIMD_MATH_INL_H
#else
#define NEURON_SIMD_MATH_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Ints = hn::RebindToSigned<Floats>;
using V = hn::Vec<Floats>;
using U = hn::Vec<Words>;
using I = hn::Vec<Ints>;
using M = hn::Mask<Floats>;

HWY_INLINE V set(float x) { return hn::Set(Floats(), x); }
HWY_INLINE U set_bits(uint32_t x) { return hn::Set(Words(), x); }
HWY_INLINE V as_float(U bits) { return hn::BitCast(Floats(), bits); }
HWY_INLINE V as_float(I bits) { return hn::BitCast(Floats(), bits); }
HWY_INLINE U as_bits(V v) { return hn::BitCast(Words(), v); }
HWY_INLINE I as_ints(V v) { return hn::BitCast(Ints(), v); }
HWY_INLINE V select(M mask, V yes, V no) { return hn::IfThenElse(mask, yes, no); }
HWY_INLINE V nan() { return as_float(set_bits(0x7FC00000u)); }
HWY_INLINE V infinity() { return as_float(set_bits(0x7F800000u)); }
HWY_INLINE V canonical(V v) { return select(hn::IsNaN(v), nan(), v); }
HWY_INLINE V negated(V v) { return as_float(hn::Xor(as_bits(v), set_bits(0x80000000u))); }
HWY_INLINE V magnitude(V v) { return as_float(hn::And(as_bits(v), set_bits(0x7FFFFFFFu))); }
HWY_INLINE V with_sign_of(V size, V sign) {
  return as_float(hn::Or(as_bits(size), hn::And(as_bits(sign), set_bits(0x80000000u))));
}

// a * b + c with one rounding.
HWY_INLINE V fma(V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR
  return V(std::fma(a.raw, b.raw, c.raw));
#else
  return hn::MulAdd(a, b, c);
#endif
}
HWY_INLINE V fma(V a, V b, float c) { return fma(a, b, set(c)); }

// Highest power first: c[0] x^(n-1) + ... + c[n-1], as a chain of fma.
template <size_t N>
HWY_INLINE V polynomial(V x, const float (&c)[N]) {
  V sum = set(c[0]);
#pragma GCC unroll 32
  for (size_t i = 1; i < N; ++i) sum = fma(sum, x, c[i]);
  return sum;
}

// The first n < lanes elements, the rest zero; and back.
HWY_INLINE V load_part(const float* p, size_t n) {
  alignas(64) float lanes[hn::MaxLanes(Floats())] = {};
  std::memcpy(lanes, p, n * sizeof(float));
  return hn::Load(Floats(), lanes);
}
HWY_INLINE void store_part(V v, float* p, size_t n) {
  alignas(64) float lanes[hn::MaxLanes(Floats())];
  hn::Store(v, Floats(), lanes);
  std::memcpy(p, lanes, n * sizeof(float));
}

// out[i] = function(in[i]), out[i] = function(a[i], b[i]).
template <class Function>
HWY_INLINE void map(const Function& function, const float* in, float* out, size_t n) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(function(hn::LoadU(d, in + i)), d, out + i);
  if (i < n) store_part(function(load_part(in + i, n - i)), out + i, n - i);
}
template <class Function>
HWY_INLINE void map(const Function& function, const float* a, const float* b, float* out,
                    size_t n) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(function(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
  if (i < n) store_part(function(load_part(a + i, n - i), load_part(b + i, n - i)), out + i, n - i);
}

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
