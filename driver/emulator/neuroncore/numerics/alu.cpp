// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/numerics/alu.h"

#include <algorithm>
#include <limits>

#include "driver/emulator/neuroncore/numerics/alu_scalar.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/neuroncore/numerics/alu.cpp"
#include "driver/emulator/neuroncore/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>

#include "driver/emulator/neuroncore/numerics/simd_math-inl.h"

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

template <class Op>
HWY_INLINE void tensor(const float* a, const float* b, float* out, size_t n) {
  map([](V x, V y) HWY_ATTR { return canonical(Op::apply(x, y)); }, a, b, out, n);
}
template <class Op>
HWY_INLINE void scalar(const float* a, float s, bool reverse, float* out, size_t n) {
  const V fixed = set(s);
  if (reverse)
    map([fixed](V x) HWY_ATTR { return canonical(Op::apply(fixed, x)); }, a, out, n);
  else
    map([fixed](V x) HWY_ATTR { return canonical(Op::apply(x, fixed)); }, a, out, n);
}

// One partition per lane: each lane walks its own row, so the order inside a row is kept.
template <class Op>
HWY_INLINE void fold(const float* in, ptrdiff_t row_stride, size_t rows, size_t n, float* acc) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const I offsets = hn::Mul(hn::Iota(Ints(), 0), hn::Set(Ints(), static_cast<int>(row_stride)));
  for (size_t r = 0; r + lanes <= rows; r += lanes) {
    V sum = hn::LoadU(d, acc + r);
    const float* column = in + static_cast<ptrdiff_t>(r) * row_stride;
    for (size_t i = 0; i < n; ++i) sum = Op::apply(sum, hn::GatherIndex(d, column + i, offsets));
    hn::StoreU(canonical(sum), d, acc + r);
  }
}

HWY_NOINLINE void alu_kernel(unsigned op, const float* a, const float* b, float* out, size_t n) {
  switch (op) {
#define NEURON_CASE(code, Op) \
  case code:                  \
    return tensor<Op>(a, b, out, n)
#include "driver/emulator/neuroncore/numerics/alu_cases-inl.h"
#undef NEURON_CASE
  }
}

HWY_NOINLINE void scalar_kernel(unsigned op, const float* a, float s, bool reverse, float* out,
                                size_t n) {
  switch (op) {
#define NEURON_CASE(code, Op) \
  case code:                  \
    return scalar<Op>(a, s, reverse, out, n)
#include "driver/emulator/neuroncore/numerics/alu_cases-inl.h"
#undef NEURON_CASE
  }
}

HWY_NOINLINE void fold_kernel(unsigned op, const float* in, ptrdiff_t row_stride, size_t rows,
                              size_t n, float* acc) {
  switch (op) {
#define NEURON_CASE(code, Op) \
  case code:                  \
    return fold<Op>(in, row_stride, rows, n, acc)
#define NEURON_REDUCIBLE_ONLY
#include "driver/emulator/neuroncore/numerics/alu_cases-inl.h"
#undef NEURON_REDUCIBLE_ONLY
#undef NEURON_CASE
  }
}

HWY_NOINLINE size_t fold_lanes() { return hn::Lanes(Floats()); }

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::numerics {

bool alu_is_arithmetic(unsigned op) {
  return op <= NEURON_ALU_LOGICAL_XOR || (op >= NEURON_ALU_ABS && op <= NEURON_ALU_RECIPROCAL);
}
bool alu_is_bitwise(unsigned op) { return op >= NEURON_ALU_AND && op <= NEURON_ALU_SHR_ARITH; }
bool alu_is_unary(unsigned op) {
  return op == NEURON_ALU_BYPASS || op == NEURON_ALU_NOT ||
         (op >= NEURON_ALU_ABS && op <= NEURON_ALU_RECIPROCAL);
}
bool alu_is_reducible(unsigned op) {
  return (op >= NEURON_ALU_ADD && op <= NEURON_ALU_ABS_MIN) ||
         (op >= NEURON_ALU_LOGICAL_AND && op <= NEURON_ALU_LOGICAL_XOR);
}

namespace {

constexpr size_t kChunk = 256;  // elements whose operands are flushed together, on the stack

bool one_by_one(unsigned op) {
  return op == NEURON_ALU_BYPASS || op == NEURON_ALU_POW || op == NEURON_ALU_MOD ||
         !alu_is_arithmetic(op);
}

void compute(unsigned op, const float* a, const float* b, float* out, size_t n) {
  if (one_by_one(op))
    alu_one_by_one(op, a, 1, b, 1, out, n);
  else
    NEURON_ON_SIMD_PATH(alu_kernel, op, a, b, out, n);
}

void compute_scalar(unsigned op, const float* a, float s, bool reverse, float* out, size_t n) {
  if (!one_by_one(op))
    NEURON_ON_SIMD_PATH(scalar_kernel, op, a, s, reverse, out, n);
  else if (reverse)
    alu_one_by_one(op, &s, 0, a, 1, out, n);
  else
    alu_one_by_one(op, a, 1, &s, 0, out, n);
}

}  // namespace

void alu(unsigned op, const float* a, const float* b, float* out, size_t n, Subnormals subnormals) {
  const FloatScope environment(subnormals);
  if (subnormals == Subnormals::kKeep || op == NEURON_ALU_BYPASS) return compute(op, a, b, out, n);
  float x[kChunk], y[kChunk];
  for (size_t first = 0; first < n; first += kChunk) {
    const size_t count = std::min(kChunk, n - first);
    copy_flushed(a + first, x, count);
    copy_flushed(b + first, y, count);
    compute(op, x, y, out + first, count);
  }
}

void alu_scalar(unsigned op, const float* a, float s, bool reverse, float* out, size_t n,
                Subnormals subnormals) {
  const FloatScope environment(subnormals);
  if (subnormals == Subnormals::kKeep || op == NEURON_ALU_BYPASS)
    return compute_scalar(op, a, s, reverse, out, n);
  copy_flushed(&s, &s, 1);
  float x[kChunk];
  for (size_t first = 0; first < n; first += kChunk) {
    const size_t count = std::min(kChunk, n - first);
    copy_flushed(a + first, x, count);
    compute_scalar(op, x, s, reverse, out + first, count);
  }
}

float reduce_identity(unsigned op) {
  switch (op) {
    case NEURON_ALU_MUL:
    case NEURON_ALU_LOGICAL_AND:
      return 1.0f;
    case NEURON_ALU_MAX:
      return -std::numeric_limits<float>::infinity();
    case NEURON_ALU_MIN:
    case NEURON_ALU_ABS_MIN:
      return std::numeric_limits<float>::infinity();
    default:
      return 0.0f;
  }
}

void reduce_rows(unsigned op, const float* in, ptrdiff_t row_stride, size_t rows, size_t n,
                 float* acc, Subnormals subnormals) {
  const FloatScope environment(subnormals);
  if (!alu_is_reducible(op)) {
    for (size_t r = 0; r < rows; ++r) acc[r] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  if (subnormals == Subnormals::kFlush) {
    for (size_t r = 0; r < rows; ++r) {
      const float* row = in + static_cast<ptrdiff_t>(r) * row_stride;
      float x[kChunk];
      copy_flushed(acc + r, acc + r, 1);
      for (size_t first = 0; first < n; first += kChunk) {
        const size_t count = std::min(kChunk, n - first);
        copy_flushed(row + first, x, count);
        N_SCALAR::fold_kernel(op, x, 0, 1, count, acc + r);
      }
    }
    return;
  }
  // Lane offsets are 32-bit element numbers.
  constexpr ptrdiff_t kFarthest = std::numeric_limits<int32_t>::max() / 16;
  const size_t lanes = NEURON_ON_SIMD_PATH(fold_lanes);
  const bool near = row_stride <= kFarthest && row_stride >= -kFarthest;
  const size_t together = near ? rows - rows % lanes : 0;
  if (together > 0) NEURON_ON_SIMD_PATH(fold_kernel, op, in, row_stride, together, n, acc);
  for (size_t r = together; r < rows; ++r)
    N_SCALAR::fold_kernel(op, in + static_cast<ptrdiff_t>(r) * row_stride, 0, 1, n, acc + r);
}

float reduce(unsigned op, const float* in, size_t n, float acc, Subnormals subnormals) {
  reduce_rows(op, in, 0, 1, n, &acc, subnormals);
  return acc;
}

}  // namespace neuron::numerics
#endif
