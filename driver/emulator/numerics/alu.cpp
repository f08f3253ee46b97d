// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/alu.h"

#include <algorithm>
#include <limits>

#include "driver/emulator/numerics/alu_scalar.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/alu.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>

#include "driver/emulator/numerics/simd_math-inl.h"
//
#include "driver/emulator/numerics/alu_operations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

template <class Op>
HWY_INLINE void tensor(const float* a, const float* b, float* out, size_t n) {
  map([](V x, V y) HWY_ATTR { return canonical(Op::apply(x, y)); }, a, b, out, n);
}
template <class Op>
HWY_INLINE void scalar(const float* a, float s, bool reverse, float* out, size_t n) {
  const V fixed = set(s);
  if (reverse) {
    map([fixed](V x) HWY_ATTR { return canonical(Op::apply(fixed, x)); }, a, out, n);
  } else {
    map([fixed](V x) HWY_ATTR { return canonical(Op::apply(x, fixed)); }, a, out, n);
  }
}

// Column vectors of 16 rows, four columns at a time: lane r of columns[j] is in[r * stride + j].
#if HWY_TARGET == HWY_AVX3
HWY_INLINE void load_columns(const float* in, ptrdiff_t stride, V (&columns)[4]) {
  __m512 rows[4];
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const float* at = in + g * stride;
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(at));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(at + 4 * stride), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(at + 8 * stride), 2);
    rows[g] = _mm512_insertf32x4(v, _mm_loadu_ps(at + 12 * stride), 3);
  }
  const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(rows[0], rows[1]));
  const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(rows[0], rows[1]));
  const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(rows[2], rows[3]));
  const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(rows[2], rows[3]));
  columns[0] = V{_mm512_castpd_ps(_mm512_unpacklo_pd(a, c))};
  columns[1] = V{_mm512_castpd_ps(_mm512_unpackhi_pd(a, c))};
  columns[2] = V{_mm512_castpd_ps(_mm512_unpacklo_pd(b, d))};
  columns[3] = V{_mm512_castpd_ps(_mm512_unpackhi_pd(b, d))};
}
#endif

// One partition per lane: each lane walks its own row, so the order inside a row is kept.
template <class Op>
HWY_INLINE void fold(const float* in, ptrdiff_t row_stride, size_t rows, size_t n, float* acc) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const I offsets = hn::Mul(hn::Iota(Ints(), 0), hn::Set(Ints(), static_cast<int>(row_stride)));
  for (size_t r = 0; r + lanes <= rows; r += lanes) {
    V sum = hn::LoadU(d, acc + r);
    const float* column = in + static_cast<ptrdiff_t>(r) * row_stride;
    size_t i = 0;
#if HWY_TARGET == HWY_AVX3
    for (; i + 4 <= n; i += 4) {
      V columns[4];
      load_columns(column + i, row_stride, columns);
      for (const V& c : columns) sum = Op::apply(sum, c);
    }
#endif
    for (; i < n; ++i) sum = Op::apply(sum, hn::GatherIndex(d, column + i, offsets));
    hn::StoreU(canonical(sum), d, acc + r);
  }
}

// max and min do not depend on the order, -0 and NaN included: along the row, four vectors at a
// time.
template <class Op>
HWY_INLINE void extreme(const float* in, ptrdiff_t row_stride, size_t rows, size_t n, float* acc) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  for (size_t r = 0; r < rows; ++r, in += row_stride) {
    V best[4];
    for (V& b : best) b = set(acc[r]);
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      for (size_t v = 0; v < 4; ++v) best[v] = Op::apply(best[v], hn::LoadU(d, in + i + v * lanes));
    }
    for (; i + lanes <= n; i += lanes) best[0] = Op::apply(best[0], hn::LoadU(d, in + i));
    V one = Op::apply(Op::apply(best[0], best[1]), Op::apply(best[2], best[3]));
    alignas(64) float lane[hn::MaxLanes(Floats())];
    hn::Store(one, d, lane);
    V total = set(lane[0]);
    for (size_t l = 1; l < lanes; ++l) total = Op::apply(total, set(lane[l]));
    for (; i < n; ++i) total = Op::apply(total, set(in[i]));
    hn::Store(canonical(total), d, lane);
    acc[r] = lane[0];
  }
}

HWY_NOINLINE void extreme_kernel(unsigned op, const float* in, ptrdiff_t row_stride, size_t rows,
                                 size_t n, float* acc) {
  if (op == NEURON_ALU_MAX) {
    extreme<Max>(in, row_stride, rows, n, acc);
  } else {
    extreme<Min>(in, row_stride, rows, n, acc);
  }
}

HWY_NOINLINE void alu_kernel(unsigned op, const float* a, const float* b, float* out, size_t n) {
  switch (op) {
#define NEURON_CASE(code, Op) \
  case code:                  \
    return tensor<Op>(a, b, out, n)
#include "driver/emulator/numerics/alu_cases-inl.h"
#undef NEURON_CASE
  }
}

HWY_NOINLINE void scalar_kernel(unsigned op, const float* a, float s, bool reverse, float* out,
                                size_t n) {
  switch (op) {
#define NEURON_CASE(code, Op) \
  case code:                  \
    return scalar<Op>(a, s, reverse, out, n)
#include "driver/emulator/numerics/alu_cases-inl.h"
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
#include "driver/emulator/numerics/alu_cases-inl.h"
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

constexpr size_t kChunk = 256;   // elements whose operands are flushed together, on the stack
constexpr size_t kLongRow = 64;  // from here on, max and min go along the row

bool one_by_one(unsigned op) {
  return op == NEURON_ALU_BYPASS || op == NEURON_ALU_POW || op == NEURON_ALU_MOD ||
         !alu_is_arithmetic(op);
}

void compute(unsigned op, const float* a, const float* b, float* out, size_t n) {
  if (one_by_one(op)) {
    alu_one_by_one(op, a, 1, b, 1, out, n);
  } else {
    NEURON_ON_SIMD_PATH(alu_kernel, op, a, b, out, n);
  }
}

void compute_scalar(unsigned op, const float* a, float s, bool reverse, float* out, size_t n) {
  if (!one_by_one(op)) {
    NEURON_ON_SIMD_PATH(scalar_kernel, op, a, s, reverse, out, n);
  } else if (reverse) {
    alu_one_by_one(op, &s, 0, a, 1, out, n);
  } else {
    alu_one_by_one(op, a, 1, &s, 0, out, n);
  }
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
  if (subnormals == Subnormals::kKeep || op == NEURON_ALU_BYPASS) {
    return compute_scalar(op, a, s, reverse, out, n);
  }
  copy_flushed(&s, &s, 1);
  float x[kChunk];
  for (size_t first = 0; first < n; first += kChunk) {
    const size_t count = std::min(kChunk, n - first);
    copy_flushed(a + first, x, count);
    compute_scalar(op, x, s, reverse, out + first, count);
  }
}

void alu_scalar_rows(unsigned op, const float* a, const float* scalars, bool reverse, float* out,
                     size_t rows, size_t n, Subnormals subnormals) {
  if (subnormals == Subnormals::kFlush) {
    for (size_t r = 0; r < rows; ++r) {
      alu_scalar(op, a + r * n, scalars[r], reverse, out + r * n, n, subnormals);
    }
    return;
  }
  const FloatScope environment(subnormals);
  for (size_t r = 0; r < rows; ++r) {
    compute_scalar(op, a + r * n, scalars[r], reverse, out + r * n, n);
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
  if ((op == NEURON_ALU_MAX || op == NEURON_ALU_MIN) && n >= kLongRow) {
    NEURON_ON_SIMD_PATH(extreme_kernel, op, in, row_stride, rows, n, acc);
    return;
  }
  // Lane offsets are 32-bit element numbers.
  constexpr ptrdiff_t kFarthest = std::numeric_limits<int32_t>::max() / 16;
  const size_t lanes = NEURON_ON_SIMD_PATH(fold_lanes);
  const bool near = row_stride <= kFarthest && row_stride >= -kFarthest;
  const size_t together = near ? rows - rows % lanes : 0;
  if (together > 0) NEURON_ON_SIMD_PATH(fold_kernel, op, in, row_stride, together, n, acc);
  for (size_t r = together; r < rows; ++r) {
    N_SCALAR::fold_kernel(op, in + static_cast<ptrdiff_t>(r) * row_stride, 0, 1, n, acc + r);
  }
}

float reduce(unsigned op, const float* in, size_t n, float acc, Subnormals subnormals) {
  reduce_rows(op, in, 0, 1, n, &acc, subnormals);
  return acc;
}

}  // namespace neuron::numerics
#endif
