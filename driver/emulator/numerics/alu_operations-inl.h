// SPDX-License-Identifier: Apache-2.0
// The arithmetic ALU operations, one class each, for the Highway target that is being compiled.
//
// apply(a, b) gives the final value of every result that is not NaN; loops make NaN canonical.
// Included once per target by alu.cpp and scan.cpp, after simd_math-inl.h, inside no namespace.
#if defined(NEURON_ALU_OPERATIONS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURON_ALU_OPERATIONS_INL_H
#undef NEURON_ALU_OPERATIONS_INL_H
#else
#define NEURON_ALU_OPERATIONS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

HWY_INLINE V truth(M mask) { return hn::IfThenElseZero(mask, set(1.0f)); }
// Not hn::Ne, which is false for NaN on some targets and true on others.
HWY_INLINE M unequal(V a, V b) { return hn::Not(hn::Eq(a, b)); }
HWY_INLINE M is_true(V v) { return unequal(v, hn::Zero(Floats())); }  // NaN is true

// NaN if either is NaN; equal operands differ at most in the sign of zero: + wins in max, - in min.
HWY_INLINE V larger(V a, V b) {
  const V tie = hn::And(a, b);
  const V r = select(hn::Gt(a, b), a, select(hn::Lt(a, b), b, tie));
  return select(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), nan(), r);
}
HWY_INLINE V smaller(V a, V b) {
  const V tie = hn::Or(a, b);
  const V r = select(hn::Lt(a, b), a, select(hn::Gt(a, b), b, tie));
  return select(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), nan(), r);
}

// One operation each; results other than NaN are final, NaN is made canonical by the loops.
struct Add {
  static HWY_INLINE V apply(V a, V b) { return hn::Add(a, b); }
};
struct Sub {
  static HWY_INLINE V apply(V a, V b) { return hn::Sub(a, b); }
};
struct Mul {
  static HWY_INLINE V apply(V a, V b) { return hn::Mul(a, b); }
};
struct Div {
  static HWY_INLINE V apply(V a, V b) { return hn::Div(a, b); }
};
struct Max {
  static HWY_INLINE V apply(V a, V b) { return larger(a, b); }
};
struct Min {
  static HWY_INLINE V apply(V a, V b) { return smaller(a, b); }
};
struct AbsMax {
  static HWY_INLINE V apply(V a, V b) { return larger(magnitude(a), magnitude(b)); }
};
struct AbsMin {
  static HWY_INLINE V apply(V a, V b) { return smaller(magnitude(a), magnitude(b)); }
};
struct Average {
  static HWY_INLINE V apply(V a, V b) { return hn::Mul(hn::Add(a, b), set(0.5f)); }
};
struct Eq {
  static HWY_INLINE V apply(V a, V b) { return truth(hn::Eq(a, b)); }
};
struct Ne {
  static HWY_INLINE V apply(V a, V b) { return truth(unequal(a, b)); }
};
struct Gt {
  static HWY_INLINE V apply(V a, V b) { return truth(hn::Gt(a, b)); }
};
struct Ge {
  static HWY_INLINE V apply(V a, V b) { return truth(hn::Ge(a, b)); }
};
struct Lt {
  static HWY_INLINE V apply(V a, V b) { return truth(hn::Lt(a, b)); }
};
struct Le {
  static HWY_INLINE V apply(V a, V b) { return truth(hn::Le(a, b)); }
};
struct LogicalAnd {
  static HWY_INLINE V apply(V a, V b) { return truth(hn::And(is_true(a), is_true(b))); }
};
struct LogicalOr {
  static HWY_INLINE V apply(V a, V b) { return truth(hn::Or(is_true(a), is_true(b))); }
};
struct LogicalXor {
  static HWY_INLINE V apply(V a, V b) { return truth(hn::Xor(is_true(a), is_true(b))); }
};
struct Abs {
  static HWY_INLINE V apply(V a, V) { return magnitude(a); }
};
struct Square {
  static HWY_INLINE V apply(V a, V) { return hn::Mul(a, a); }
};
struct Relu {
  static HWY_INLINE V apply(V a, V) { return larger(a, hn::Zero(Floats())); }
};
struct Rsqrt {
  static HWY_INLINE V apply(V a, V) { return hn::Div(set(1.0f), hn::Sqrt(a)); }
};
struct Reciprocal {
  static HWY_INLINE V apply(V a, V) { return hn::Div(set(1.0f), a); }
};

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
