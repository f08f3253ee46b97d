// SPDX-License-Identifier: Apache-2.0
// The activation functions for the Highway target that is being compiled: their steps, one by one.
//
// Polynomials are minimax fits with coefficients rounded to fp32, highest power first. Lanes whose
// input makes a step meaningless (infinity, NaN, far out of range) compute on and are replaced by a
// select; the caller makes NaN inputs canonical, and loops. Included once per target by
// activation.cpp, after simd_math-inl.h.
#if defined(NEURON_ACTIVATION_PROGRAMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURON_ACTIVATION_PROGRAMS_INL_H
#undef NEURON_ACTIVATION_PROGRAMS_INL_H
#else
#define NEURON_ACTIVATION_PROGRAMS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

HWY_INLINE V zero() { return hn::Zero(Floats()); }
HWY_INLINE V one() { return set(1.0f); }
// x * p for a weight p in [0, 1]: zero, not NaN, where the weight vanished and x is infinite.
HWY_INLINE V weighted(V x, V p) {
  return select(hn::Eq(p, zero()), with_sign_of(zero(), x), hn::Mul(x, p));
}

// ---- exponential ----

// x = n ln 2 + r with |r| <= ln 2 / 2.
struct Reduced {
  I n;
  V r;
};
HWY_INLINE Reduced reduce_by_ln2(V x) {
  const V shift = set(0x1.8p23f);  // adding it leaves the nearest integer in the low mantissa bits
  const V shifted = fma(x, set(0x1.715476p+0f), shift);
  const V n = hn::Sub(shifted, shift);
  const V r = fma(n, set(-0x1.62e430p-1f), x);
  return {hn::Sub(as_ints(shifted), as_ints(shift)), fma(n, set(0x1.05c610p-29f), r)};
}
// e^r - 1 for the reduced argument.
HWY_INLINE V expm1_reduced(V r) {
  constexpr float kP[] = {0x1.6d02f2p-10f, 0x1.123e88p-7f, 0x1.555524p-5f, 0x1.55548ap-3f, 0x1p-1f};
  return fma(hn::Mul(r, r), polynomial(r, kP), r);
}
HWY_INLINE V power_of_two(I n) {
  return as_float(hn::ShiftLeft<23>(hn::Add(n, hn::Set(Ints(), 127))));
}
HWY_INLINE V exp_of(V x) {
  // Beyond these the result is 0 or infinity, and the rounding below gives exactly that for both
  // ends.
  x = hn::Min(hn::Max(x, set(-104.0f)), set(89.0f));
  const Reduced a = reduce_by_ln2(x);
  const V p = hn::Add(one(), expm1_reduced(a.r));
  // Two factors, because 2^n alone can leave the exponent range when the result does not.
  const I half = hn::ShiftRight<1>(a.n);
  return hn::Mul(hn::Mul(p, power_of_two(half)), power_of_two(hn::Sub(a.n, half)));
}
// e^(-s x^2) for s a power of two: corrected by the rounding error of x^2.
HWY_INLINE V exp_minus_square(V x, float s) {
  const V h = hn::Mul(x, x);
  const V rest = fma(x, x, negated(h));
  const V e = exp_of(hn::Mul(h, set(-s)));
  return fma(e, hn::Mul(rest, set(-s)), e);
}

// ---- logarithm ----

HWY_INLINE V log_of(V x) {
  constexpr float kP[] = {-0x1.38b584p-4f, 0x1.055b6cp-3f, -0x1.0d8542p-3f, 0x1.22da1cp-3f,
                          -0x1.547244p-3f, 0x1.99a008p-3f, -0x1.000226p-2f, 0x1.555554p-2f};
  const M tiny = hn::Lt(x, set(0x1p-126f));
  const V scaled = select(tiny, hn::Mul(x, set(0x1p23f)), x);
  // m in [sqrt(1/2), sqrt(2)): subtracting the bits of sqrt(1/2) makes the exponent field step
  // there.
  const I bits = as_ints(scaled);
  const I e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(Ints(), 0x3F3504F3)));
  const V f = hn::Sub(as_float(hn::Sub(bits, hn::ShiftLeft<23>(e))), one());
  const V exponent = hn::Sub(hn::ConvertTo(Floats(), e), hn::IfThenElseZero(tiny, set(23.0f)));
  const V f2 = hn::Mul(f, f);
  V low = fma(hn::Mul(polynomial(f, kP), f), f2, hn::Mul(exponent, set(0x1.7f7d1cp-20f)));
  low = fma(f2, set(-0.5f), low);
  // ln 2 in two parts: the high one has few bits, so exponent * high is exact.
  const V y = fma(exponent, set(0x1.62e4p-1f), hn::Add(f, low));
  const V edge = select(hn::Eq(x, infinity()), x, y);
  const V at_zero = select(hn::Eq(x, zero()), negated(infinity()), edge);
  return select(hn::Lt(x, zero()), nan(), at_zero);
}
// log(1 + e) for e in [0, 1]; corrected by the rounding error of 1 + e.
HWY_INLINE V log1p_of(V e) {
  const V u = hn::Add(one(), e);
  const V rest = hn::Sub(e, hn::Sub(u, one()));
  return hn::Add(log_of(u), hn::Div(rest, u));
}

// ---- sigmoid family: one exponential of -|x|, so nothing overflows ----

struct Sigmoid {
  V at;        // sigmoid(x)
  V opposite;  // sigmoid(-x) = 1 - sigmoid(x) without cancellation
};
HWY_INLINE Sigmoid sigmoid_pair(V x) {
  const V e = exp_of(negated(magnitude(x)));
  const V d = hn::Add(one(), e);
  const V large = hn::Div(one(), d);
  const V small = hn::Div(e, d);
  const M negative = hn::Lt(x, zero());
  return {select(negative, small, large), select(negative, large, small)};
}
HWY_INLINE V sigmoid(V x) { return sigmoid_pair(x).at; }
HWY_INLINE V silu(V x) { return weighted(x, sigmoid(x)); }
// Derivative of x sigmoid(scale x).
HWY_INLINE V scaled_silu_dx(V x, float scale) {
  const V y = hn::Mul(x, set(scale));
  const Sigmoid s = sigmoid_pair(y);
  return hn::Add(s.at, weighted(y, hn::Mul(s.at, s.opposite)));
}
HWY_INLINE V silu_dx(V x) { return scaled_silu_dx(x, 1.0f); }
HWY_INLINE V gelu_sigmoid(V x) { return weighted(x, sigmoid(hn::Mul(x, set(1.702f)))); }
HWY_INLINE V gelu_sigmoid_dx(V x) { return scaled_silu_dx(x, 1.702f); }
// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(2 ...), which does not cancel.
HWY_INLINE V gelu_tanh(V x) {
  const V twice = hn::Mul(x, fma(hn::Mul(x, x), set(0x1.2444f2p-4f), 0x1.988454p+0f));
  return weighted(x, sigmoid(twice));
}
HWY_INLINE V tanh_of(V x) {
  const V a = magnitude(x);
  const V twice = select(hn::Gt(a, set(10.0f)), set(20.0f), hn::Add(a, a));
  const Reduced z = reduce_by_ln2(twice);
  const V scale = power_of_two(z.n);
  const V t = fma(scale, expm1_reduced(z.r), hn::Sub(scale, one()));  // e^(2a) - 1
  const V y = select(hn::Gt(a, set(10.0f)), one(), hn::Div(t, hn::Add(t, set(2.0f))));
  return with_sign_of(y, x);
}
HWY_INLINE V softplus(V x) {
  const V positive = hn::IfThenElseZero(hn::Gt(x, zero()), x);
  return hn::Add(positive, log1p_of(exp_of(negated(magnitude(x)))));
}
// x tanh(log(1 + e^x)), with the tanh as a ratio of polynomials in e^-|x|.
HWY_INLINE V mish(V x) {
  const V e = exp_of(negated(magnitude(x)));
  const V e2 = hn::Mul(e, e);
  const V above = fma(e, set(2.0f), one());
  const V ratio_above = hn::Div(above, fma(e2, set(2.0f), above));
  const V below = fma(e, set(2.0f), e2);
  const V ratio_below = hn::Div(below, hn::Add(below, set(2.0f)));
  return weighted(x, select(hn::Lt(x, zero()), ratio_below, ratio_above));
}

// ---- normal distribution ----

// e^(x^2/2) (1 - Phi(x)) for 0 <= x <= 20: smooth, a polynomial in (x-4)/(x+4) after taking out the
// factor 1/(1 + sqrt(2) x) of its decay.
HWY_INLINE V scaled_tail(V x) {
  constexpr float kP[] = {-0x1.b567e2p-14f, -0x1.06fc14p-14f, 0x1.13954cp-10f, -0x1.6e4fc2p-11f,
                          -0x1.dd817cp-8f,  0x1.d95652p-6f,   -0x1.ddbec8p-5f, 0x1.1f540ap-4f,
                          -0x1.03dc16p-5f,  -0x1.0f10fcp-4f,  0x1.41c7dap-1f};
  const V t = hn::Div(hn::Sub(x, set(4.0f)), hn::Add(x, set(4.0f)));
  return hn::Div(polynomial(t, kP), fma(x, set(0x1.6a09e6p+0f), one()));
}
HWY_INLINE V at_most_20(V a) { return select(hn::Gt(a, set(20.0f)), set(20.0f), a); }
// erf(a) for 0 <= a < 0.8.
HWY_INLINE V erf_near_zero(V a) {
  constexpr float kP[] = {-0x1.576336p-11f, 0x1.4d6914p-8f, -0x1.b77414p-6f,
                          0x1.ce2854p-4f,   -0x1.81273p-2f, 0x1.06eba8p-3f};
  return fma(a, polynomial(hn::Mul(a, a), kP), a);
}
struct Normal {
  V phi;      // density * sqrt(2 pi)
  V Phi;      // distribution
  V clamped;  // x cut to +-20, beyond which both are constant
};
HWY_INLINE Normal normal(V x) {
  const V a = at_most_20(magnitude(x));
  const V density = exp_minus_square(a, 0.5f);
  const V tail = hn::Mul(scaled_tail(a), density);
  const M negative = hn::Lt(x, zero());
  const V far = select(negative, tail, hn::Sub(one(), tail));
  const V half_erf = hn::Mul(erf_near_zero(hn::Mul(a, set(0x1.6a09e6p-1f))), set(0.5f));
  const V near = hn::Add(set(0.5f), select(negative, negated(half_erf), half_erf));
  const V distribution = select(hn::Lt(a, set(0.7f)), near, far);
  return {density, distribution, with_sign_of(a, x)};
}
HWY_INLINE V gelu(V x) { return weighted(x, normal(x).Phi); }
HWY_INLINE V gelu_dx(V x) {
  const Normal n = normal(x);
  return fma(hn::Mul(n.clamped, n.phi), set(0x1.988454p-2f), n.Phi);  // 1 / sqrt(2 pi)
}
HWY_INLINE V erf_of(V x) {
  const V a = at_most_20(magnitude(x));
  const V tail = hn::Mul(scaled_tail(hn::Mul(a, set(0x1.6a09e6p+0f))), exp_minus_square(a, 1.0f));
  const V far = fma(tail, set(-2.0f), one());
  return with_sign_of(select(hn::Lt(a, set(0.8f)), erf_near_zero(a), far), x);
}
HWY_INLINE V erf_dx(V x) {
  return hn::Mul(exp_minus_square(at_most_20(magnitude(x)), 1.0f), set(0x1.20dd76p+0f));
}

// ---- the rest ----

// No range reduction: accurate on [-pi, pi]. Beyond it the polynomial continues, through 27.65 at
// 9, the one published value of a real chip.
HWY_INLINE V sin_of(V x) {
  constexpr float kP[] = {-0x1.543fa4p-42f, 0x1.42543cp-33f, -0x1.ab4694p-26f, 0x1.71b54ep-19f,
                          -0x1.a017d4p-13f, 0x1.111102p-7f,  -0x1.555554p-3f};
  const V x2 = hn::Mul(x, x);
  return fma(hn::Mul(x, x2), polynomial(x2, kP), x);
}
HWY_INLINE V arctan(V x) {
  constexpr float kP[] = {-0x1.dcc11ep-10f, 0x1.69651ap-7f,  -0x1.012eeap-5f,
                          0x1.dc9848p-5f,   -0x1.58bcfep-4f, 0x1.c0c8e2p-4f,
                          -0x1.24262ap-3f,  0x1.999266p-3f,  -0x1.55554p-2f};
  const V a = magnitude(x);
  const M steep = hn::Gt(a, one());
  const V z = select(steep, hn::Div(one(), a), a);
  const V z2 = hn::Mul(z, z);
  const V y = fma(hn::Mul(z, z2), polynomial(z2, kP), z);
  const V turned =
      hn::Add(hn::Sub(set(0x1.921fb6p+0f), y), set(-0x1.777a5cp-25f));  // pi / 2 in two parts
  return with_sign_of(select(steep, turned, y), x);
}
HWY_INLINE V square(V x) { return hn::Mul(x, x); }
HWY_INLINE V relu(V x) { return select(hn::Le(x, zero()), zero(), x); }
HWY_INLINE V sign(V x) {
  const V positive = hn::IfThenElseZero(hn::Gt(x, zero()), one());
  return select(hn::Lt(x, zero()), set(-1.0f), select(hn::IsNaN(x), x, positive));
}
HWY_INLINE V sqrt_of(V x) { return hn::Sqrt(x); }
HWY_INLINE V rsqrt(V x) { return hn::Div(one(), hn::Sqrt(x)); }
HWY_INLINE V reciprocal(V x) { return hn::Div(one(), x); }

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
