// SPDX-License-Identifier: Apache-2.0
// Loops over a row (row.h) for the Highway target that is being compiled: two vectors at a time, so
// that their bf16 results fill one.
//
// NaN results must be canonical: the rounding to bf16 handles only that NaN. Included once per
// target, after simd_math-inl.h, inside no namespace.
#if defined(NEURON_ROW_LOOPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef NEURON_ROW_LOOPS_INL_H
#undef NEURON_ROW_LOOPS_INL_H
#else
#define NEURON_ROW_LOOPS_INL_H
#endif

#include "driver/emulator/numerics/row.h"

// For the function of a loop: two vectors at a time overlap only if the loop holds both, and its
// constants are then loaded once.
#ifndef NEURON_INLINED
#define NEURON_INLINED HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

constexpr size_t kPair = 2 * hn::MaxLanes(Floats());  // elements of two vectors

struct Pair {
  V low, high;
};

HWY_INLINE V widened(const std::byte* at) {
  const Words d;
  const hn::Rebind<uint16_t, Words> half;
  const auto* from = reinterpret_cast<const uint16_t*>(at);
  return as_float(hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, from))));
}
HWY_INLINE U rounded_to_upper_half(V v) {
  const U bits = as_bits(v);
  const U odd = hn::And(hn::ShiftRight<16>(bits), set_bits(1));
  return hn::Add(hn::Add(bits, set_bits(0x7FFF)), odd);
}

// Elements [i, i + kPair) of a row.
HWY_INLINE Pair load_pair(const std::byte* row, bool bf16, size_t i) {
  const Floats d;
  if (bf16) return {widened(row + 2 * i), widened(row + 2 * (i + kPair / 2))};
  const auto* from = reinterpret_cast<const float*>(row);
  return {hn::LoadU(d, from + i), hn::LoadU(d, from + i + kPair / 2)};
}
HWY_INLINE void store_pair(const Pair& values, std::byte* row, bool bf16, size_t i) {
  const Floats d;
  if (!bf16) {
    auto* to = reinterpret_cast<float*>(row);
    hn::StoreU(values.low, d, to + i);
    hn::StoreU(values.high, d, to + i + kPair / 2);
    return;
  }
  const U low = rounded_to_upper_half(values.low);
  const U high = rounded_to_upper_half(values.high);
#if HWY_TARGET == HWY_SCALAR
  const uint16_t codes[2] = {static_cast<uint16_t>(hn::GetLane(low) >> 16),
                             static_cast<uint16_t>(hn::GetLane(high) >> 16)};
  std::memcpy(row + 2 * i, codes, sizeof(codes));
#else
  const hn::Repartition<uint16_t, Words> codes;
  hn::StoreU(hn::ConcatOdd(codes, hn::BitCast(codes, high), hn::BitCast(codes, low)), codes,
             reinterpret_cast<uint16_t*>(row) + i);
#endif
}

// The first n < kPair elements of a row, for the end of a row; accessed through a copy.
struct RowEnd {
  alignas(64) std::byte bytes[kPair * sizeof(float)] = {};
};
HWY_INLINE size_t bytes_of_row(bool bf16, size_t n) { return n * (bf16 ? 2 : sizeof(float)); }

// Asks for the place of elements [i, i + kPair) in the row behind this one: rows lie pages apart,
// where hardware prefetchers do not follow.
template <class Rows>
HWY_INLINE void ask_for_next(const Rows& row, size_t i) {
  const std::byte* at = row.data + row.stride + i * (row.bf16 ? 2 : sizeof(float));
  __builtin_prefetch(at);
  if (!row.bf16 && kPair * sizeof(float) > 64) __builtin_prefetch(at + 64);
}

// What the end of a row needs of a function: its code once more, not twice. Most of what compiling
// such loops takes is the code of their functions.
template <class Function>
HWY_INLINE Pair pair_of(const Function& function, const Pair& a) {
  V of[2] = {a.low, a.high};
#pragma GCC unroll 1
  for (V& v : of) v = function(v);
  return {of[0], of[1]};
}
template <class Function>
HWY_INLINE Pair pair_of(const Function& function, const Pair& a, const Pair& b) {
  V of[2] = {a.low, a.high};
  const V with[2] = {b.low, b.high};
#pragma GCC unroll 1
  for (size_t n = 0; n < 2; ++n) of[n] = function(of[n], with[n]);
  return {of[0], of[1]};
}

// out[i] = function(x[i]) for vectors.
template <class Function>
HWY_INLINE void map_row(const Function& function, const SourceRows& x, const ResultRows& out,
                        size_t n) {
  size_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    ask_for_next(x, i);
    ask_for_next(out, i);
    const Pair v = load_pair(x.data, x.bf16, i);
    store_pair({function(v.low), function(v.high)}, out.data, out.bf16, i);
  }
  if (i == n) return;
  RowEnd from, to;
  std::memcpy(from.bytes, x.data + bytes_of_row(x.bf16, i), bytes_of_row(x.bf16, n - i));
  store_pair(pair_of(function, load_pair(from.bytes, x.bf16, 0)), to.bytes, out.bf16, 0);
  std::memcpy(out.data + bytes_of_row(out.bf16, i), to.bytes, bytes_of_row(out.bf16, n - i));
}

// out[i] = function(x[i], y[i]).
template <class Function>
HWY_INLINE void map_rows(const Function& function, const SourceRows& x, const SourceRows& y,
                         const ResultRows& out, size_t n) {
  size_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    ask_for_next(x, i);
    ask_for_next(y, i);
    ask_for_next(out, i);
    const Pair a = load_pair(x.data, x.bf16, i);
    const Pair b = load_pair(y.data, y.bf16, i);
    store_pair({function(a.low, b.low), function(a.high, b.high)}, out.data, out.bf16, i);
  }
  if (i == n) return;
  RowEnd left, right, to;
  std::memcpy(left.bytes, x.data + bytes_of_row(x.bf16, i), bytes_of_row(x.bf16, n - i));
  std::memcpy(right.bytes, y.data + bytes_of_row(y.bf16, i), bytes_of_row(y.bf16, n - i));
  const Pair a = load_pair(left.bytes, x.bf16, 0);
  const Pair b = load_pair(right.bytes, y.bf16, 0);
  store_pair(pair_of(function, a, b), to.bytes, out.bf16, 0);
  std::memcpy(out.data + bytes_of_row(out.bf16, i), to.bytes, bytes_of_row(out.bf16, n - i));
}

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
