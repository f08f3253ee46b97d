// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/scan.h"

#include <cstring>

#include "driver/emulator/numerics/alu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/scan.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>

#include "driver/emulator/numerics/simd_math-inl.h"
//
#include "driver/emulator/numerics/alu_operations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

// Every operation takes the accumulated value as its first operand; this one swaps the operands of
// operations that do not commute.
template <class Op>
struct Swapped {
  static HWY_INLINE V apply(V a, V b) { return Op::apply(b, a); }
};

// Signs that change: s - a is the sum of s and -a, to the bit, so it needs no code of its own.
struct Flips {
  V a, b;
};
HWY_INLINE V flip_if(bool flips) { return set(flips ? -0.0f : 0.0f); }

// Advances several vectors of rows together, because each step of a chain waits for the one before.
// NaN stays NaN through these operations, so it is made canonical on the way out only.
template <size_t kVectors, class Op0, class Op1>
HWY_INLINE void chains(const float* a, const float* b, float* out, size_t stride, size_t n,
                       float* state, const Flips& flips) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  V s[kVectors];
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) s[v] = hn::LoadU(d, state + v * lanes);
  for (size_t i = 0; i < n; ++i, a += stride, b += stride, out += stride) {
#pragma GCC unroll 4
    for (size_t v = 0; v < kVectors; ++v) {
      const V first = Op0::apply(s[v], hn::Xor(hn::LoadU(d, a + v * lanes), flips.a));
      s[v] = Op1::apply(first, hn::Xor(hn::LoadU(d, b + v * lanes), flips.b));
      hn::StoreU(canonical(s[v]), d, out + v * lanes);
    }
  }
#pragma GCC unroll 4
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(canonical(s[v]), d, state + v * lanes);
}

// Computes as many rows as fill whole vectors; returns their number.
template <class Op0, class Op1>
HWY_INLINE size_t scan(const float* a, const float* b, float* out, size_t stride, size_t rows,
                       size_t n, float* state, const Flips& flips) {
  const size_t lanes = hn::Lanes(Floats());
  size_t r = 0;
  for (; r + 4 * lanes <= rows; r += 4 * lanes) {
    chains<4, Op0, Op1>(a + r, b + r, out + r, stride, n, state + r, flips);
  }
  for (; r + lanes <= rows; r += lanes) {
    chains<1, Op0, Op1>(a + r, b + r, out + r, stride, n, state + r, flips);
  }
  return r;
}

template <class Op0>
HWY_INLINE size_t scan_second(const ScanOperations& o, const float* a, const float* b, float* out,
                              size_t stride, size_t rows, size_t n, float* state,
                              const Flips& flips) {
  switch (o.op1) {
    case NEURON_ALU_SUB:  // first - b, and b - first when reversed
      if (o.reverse1) {
        return scan<Op0, Swapped<Sub>>(a, b, out, stride, rows, n, state, flips);
      }
      [[fallthrough]];
    case NEURON_ALU_ADD:
      return scan<Op0, Add>(a, b, out, stride, rows, n, state, flips);
    case NEURON_ALU_MUL:
      return scan<Op0, Mul>(a, b, out, stride, rows, n, state, flips);
    case NEURON_ALU_MAX:
      return scan<Op0, Max>(a, b, out, stride, rows, n, state, flips);
    case NEURON_ALU_MIN:
      return scan<Op0, Min>(a, b, out, stride, rows, n, state, flips);
    default:
      return 0;
  }
}

// Returns the number of computed rows; 0 for operations that have no vector loop.
HWY_NOINLINE size_t scan_kernel(const ScanOperations& o, const float* a, const float* b, float* out,
                                size_t stride, size_t rows, size_t n, float* state) {
  const Flips flips{flip_if(o.op0 == NEURON_ALU_SUB && o.reverse0),
                    flip_if(o.op1 == NEURON_ALU_SUB && !o.reverse1)};
  switch (o.op0) {
    case NEURON_ALU_SUB:  // a - s, and s - a when reversed
      if (!o.reverse0) {
        return scan_second<Swapped<Sub>>(o, a, b, out, stride, rows, n, state, flips);
      }
      [[fallthrough]];
    case NEURON_ALU_ADD:
      return scan_second<Add>(o, a, b, out, stride, rows, n, state, flips);
    case NEURON_ALU_MUL:
      return scan_second<Mul>(o, a, b, out, stride, rows, n, state, flips);
    case NEURON_ALU_MAX:
      return scan_second<Max>(o, a, b, out, stride, rows, n, state, flips);
    case NEURON_ALU_MIN:
      return scan_second<Min>(o, a, b, out, stride, rows, n, state, flips);
    default:
      return 0;
  }
}

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::numerics {
namespace {

// Makes NaN canonical, as alu() does with every result.
void step(unsigned op, bool reverse, const float* x, const float* y, float* out, size_t n,
          Subnormals subnormals) {
  if (reverse) {
    alu(op, y, x, out, n, subnormals);
  } else {
    alu(op, x, y, out, n, subnormals);
  }
}

}  // namespace

void scan_columns(const ScanOperations& operations, const float* a, const float* b, float* out,
                  size_t stride, size_t rows, size_t n, float* state, Subnormals subnormals) {
  size_t done = 0;
  if (subnormals == Subnormals::kKeep) {
    const FloatScope environment(subnormals);
    done = NEURON_ON_SIMD_PATH(scan_kernel, operations, a, b, out, stride, rows, n, state);
  }
  if (done == rows) return;
  for (size_t i = 0; i < n; ++i) {
    float* s = state + done;
    const size_t at = i * stride + done;
    step(operations.op0, operations.reverse0, a + at, s, s, rows - done, subnormals);
    step(operations.op1, operations.reverse1, s, b + at, s, rows - done, subnormals);
    std::memcpy(out + at, s, (rows - done) * sizeof(float));
  }
}

void accumulate_columns(unsigned op, const float* x, float* out, size_t stride, size_t rows,
                        size_t n, float* state, Subnormals subnormals) {
  for (size_t i = 0; i < n; ++i) {
    alu(op, x + i * stride, state, state, rows, subnormals);
    std::memcpy(out + i * stride, state, rows * sizeof(float));
  }
}

}  // namespace neuron::numerics
#endif
