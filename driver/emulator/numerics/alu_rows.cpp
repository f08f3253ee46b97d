// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/alu_rows.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/float_environment.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/alu_rows.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>

#include "driver/emulator/numerics/simd_math-inl.h"
//
#include "driver/emulator/numerics/alu_operations-inl.h"
#include "driver/emulator/numerics/row_loops-inl.h"

#ifndef NEURON_ALU_ROWS_SHARED
#define NEURON_ALU_ROWS_SHARED
namespace neuron::numerics {
struct Extremes {
  int16_t largest, smallest;
};
}  // namespace neuron::numerics
#endif

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

struct SubFrom {
  static HWY_INLINE V apply(V a, V b) { return hn::Sub(b, a); }
};

// The scalar of a step in row r. a - s is the sum of a and -s, and a alone the sum of a and -0, to
// the bit. So a step that subtracts a scalar, and one that does nothing, are additions and need no
// code of their own: most of what compiling this file takes is the code of pairs of steps.
HWY_INLINE V scalar_of(unsigned op, bool reverse, const float* scalars, size_t r) {
  if (op == NEURON_ALU_BYPASS) return set(-0.0f);
  const float scalar = scalars == nullptr ? 0.0f : scalars[r];
  return set(op == NEURON_ALU_SUB && !reverse ? -scalar : scalar);
}

// A NaN between the steps need not be canonical: the second step's result is.
template <class First, class Second>
HWY_INLINE void with_rows(const AluRows& work, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; ++r) {
    const V s = scalar_of(work.op0, work.reverse0, work.scalars0, r);
    map_rows([s](V a, V b) HWY_ATTR { return canonical(Second::apply(First::apply(a, s), b)); },
             work.x.from_row(r), work.y.from_row(r), work.out.from_row(r), n);
  }
}
template <class First, class Second>
HWY_INLINE void with_scalars(const AluRows& work, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; ++r) {
    const V s = scalar_of(work.op0, work.reverse0, work.scalars0, r);
    const V t = scalar_of(work.op1, work.reverse1, work.scalars1, r);
    map_row([s, t](V a) HWY_ATTR { return canonical(Second::apply(First::apply(a, s), t)); },
            work.x.from_row(r), work.out.from_row(r), n);
  }
}
template <class First, class Second>
HWY_INLINE void steps(const AluRows& work, size_t rows, size_t n) {
  if (work.y.data != nullptr) return with_rows<First, Second>(work, rows, n);
  with_scalars<First, Second>(work, rows, n);
}

template <class First>
HWY_INLINE void second_step(const AluRows& work, size_t rows, size_t n) {
  switch (work.op1) {
    case NEURON_ALU_ADD:
      return steps<First, Add>(work, rows, n);
    case NEURON_ALU_SUB:
      if (work.reverse1) return steps<First, SubFrom>(work, rows, n);
      if (work.y.data != nullptr) return with_rows<First, Sub>(work, rows, n);
      return with_scalars<First, Add>(work, rows, n);
    case NEURON_ALU_MUL:
      return steps<First, Mul>(work, rows, n);
    case NEURON_ALU_MAX:
      return steps<First, Max>(work, rows, n);
    case NEURON_ALU_MIN:
      return steps<First, Min>(work, rows, n);
    default:
      return with_scalars<First, Add>(work, rows, n);
  }
}

HWY_NOINLINE void alu_rows_kernel(const AluRows& work, size_t rows, size_t n) {
  if (work.op0 == NEURON_ALU_MUL) return second_step<Mul>(work, rows, n);
  if (work.op0 == NEURON_ALU_SUB && work.reverse0) return second_step<SubFrom>(work, rows, n);
  second_step<Add>(work, rows, n);
}

// Maps bf16 to integers of the same order: -0 below +0, NaN beyond the infinities.
HWY_INLINE int16_t key_of(const std::byte* code) {
  int16_t bits;
  std::memcpy(&bits, code, 2);
  return static_cast<int16_t>(bits ^ (bits < 0 ? 0x7FFF : 0));
}
HWY_NOINLINE Extremes extreme_bf16_kernel(const std::byte* row, size_t n) {
  size_t i = 0;
  Extremes found{INT16_MIN, INT16_MAX};
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<int16_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto* from = reinterpret_cast<const int16_t*>(row);
  auto largest = hn::Set(d, INT16_MIN);
  auto smallest = hn::Set(d, INT16_MAX);
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::LoadU(d, from + i);
    const auto flip = hn::And(hn::ShiftRight<15>(bits), hn::Set(d, 0x7FFF));
    const auto key = hn::Xor(bits, flip);
    largest = hn::Max(largest, key);
    smallest = hn::Min(smallest, key);
  }
  alignas(64) int16_t lane[hn::MaxLanes(d)];
  hn::Store(largest, d, lane);
  found.largest = *std::max_element(lane, lane + lanes);
  hn::Store(smallest, d, lane);
  found.smallest = *std::min_element(lane, lane + lanes);
#endif
  for (; i < n; ++i) {
    const int16_t key = key_of(row + 2 * i);
    found.largest = std::max(found.largest, key);
    found.smallest = std::min(found.smallest, key);
  }
  return found;
}

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::numerics {
namespace {

float value_of_key(int16_t key) {
  const uint32_t code = static_cast<uint16_t>(key ^ (key < 0 ? 0x7FFF : 0));
  return std::bit_cast<float>(code << 16);
}

}  // namespace

bool alu_rows_cover(unsigned op0, unsigned op1) {
  const auto simple = [](unsigned op) {
    return op == NEURON_ALU_BYPASS || op == NEURON_ALU_ADD || op == NEURON_ALU_SUB ||
           op == NEURON_ALU_MUL;
  };
  const bool second = simple(op1) || op1 == NEURON_ALU_MAX || op1 == NEURON_ALU_MIN;
  return simple(op0) && second && (op0 != NEURON_ALU_BYPASS || op1 != NEURON_ALU_BYPASS);
}

void alu_rows(const AluRows& work, size_t rows, size_t n) {
  const FloatScope environment(Subnormals::kKeep);
  NEURON_ON_SIMD_PATH(alu_rows_kernel, work, rows, n);
}

void extreme_bf16_rows(unsigned op, const SourceRows& in, size_t rows, size_t n, float* acc) {
  constexpr int16_t kInfinity = 0x7F80;
  constexpr int16_t kMinusInfinity = -0x7F81;
  if (n == 0) return;
  for (size_t r = 0; r < rows; ++r) {
    const Extremes found = NEURON_ON_SIMD_PATH(extreme_bf16_kernel, in.from_row(r).data, n);
    float value = value_of_key(op == NEURON_ALU_MAX ? found.largest : found.smallest);
    // A NaN of either sign makes the result NaN.
    if (found.largest > kInfinity) value = value_of_key(found.largest);
    if (found.smallest < kMinusInfinity) value = value_of_key(found.smallest);
    acc[r] = reduce(op, &value, 1, acc[r]);
  }
}

}  // namespace neuron::numerics
#endif
