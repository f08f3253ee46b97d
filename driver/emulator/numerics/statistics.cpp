// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/statistics.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/statistics.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>

#include "driver/emulator/numerics/simd_math-inl.h"

#ifndef NEURON_STATISTICS_SHARED
#define NEURON_STATISTICS_SHARED
namespace neuron::numerics {
constexpr size_t kChains = 32;
}
#endif

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

// Vectors that hold all chains, and what is added to them at each step: Step(sums, x, first lane).
constexpr size_t kChainVectors = kChains / hn::MaxLanes(Floats());

// Runs `step` over 32 elements at a time; the last ones are padded with `padding` for each chain.
template <class Step>
HWY_INLINE void walk(const float* x, size_t n, const float* padding, const Step& step, V* sums) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  size_t k = 0;
  for (; k + kChains <= n; k += kChains) {
#pragma GCC unroll 32
    for (size_t v = 0; v < kChainVectors; ++v) {
      sums[v] = step(sums[v], hn::LoadU(d, x + k + v * lanes), v * lanes);
    }
  }
  if (k == n) return;
  alignas(64) float rest[kChains];
  std::memcpy(rest, padding, sizeof(rest));
  std::memcpy(rest, x + k, (n - k) * sizeof(float));
  for (size_t v = 0; v < kChainVectors; ++v) {
    sums[v] = step(sums[v], hn::Load(d, rest + v * lanes), v * lanes);
  }
}

// Adds up the chains as the header says, by vectors as long as both summands fill one.
HWY_INLINE void fold_chains(V* sums, float* even, float* odd) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  size_t width = kChains / 2;
  for (; width >= lanes && width >= 2; width /= 2) {
    for (size_t v = 0; v < width / lanes; ++v) sums[v] = hn::Add(sums[v], sums[v + width / lanes]);
  }
  alignas(64) float chain[kChains];
  for (size_t v = 0; v < std::max<size_t>(1, 2 * width / lanes); ++v) {
    hn::Store(sums[v], d, chain + v * lanes);
  }
  for (; width >= 2; width /= 2) {
    for (size_t q = 0; q < width; ++q) chain[q] = chain[q] + chain[q + width];
  }
  *even = chain[0];
  *odd = chain[1];
}

HWY_NOINLINE void parity_kernel(const float* x, size_t n, float* out) {
  const Floats d;
  // A sum that starts from +0 is never -0, so that adding +0 for an absent element changes nothing.
  alignas(64) float padding[kChains] = {};
  V sums[kChainVectors];
  for (V& sum : sums) sum = hn::Zero(d);
  walk(
      x, n, padding, [](V sum, V value, size_t) HWY_ATTR { return hn::Add(sum, value); }, sums);
  float total[2];
  fold_chains(sums, &total[0], &total[1]);

  const float count[2] = {static_cast<float>((n + 1) / 2), static_cast<float>(n / 2)};
  float mean[2];
  for (size_t parity = 0; parity < 2; ++parity) {
    mean[parity] = count[parity] == 0.0f ? 0.0f : total[parity] / count[parity];
  }
  // An absent element counts as equal to the mean, so that its square is 0 even where the mean is
  // not finite.
  alignas(64) float means[kChains];
  for (size_t q = 0; q < kChains; ++q) {
    means[q] = mean[q % 2];
    const bool finite = (std::bit_cast<uint32_t>(mean[q % 2]) & 0x7F800000u) != 0x7F800000u;
    padding[q] = finite ? mean[q % 2] : 0.0f;
  }
  V squares[kChainVectors];
  for (V& sum : squares) sum = hn::Zero(d);
  walk(
      x, n, padding,
      [&means](V sum, V value, size_t first) HWY_ATTR {
        const V away = hn::Sub(value, hn::Load(Floats(), means + first));
        return fma(away, away, sum);
      },
      squares);
  float spread[2];
  fold_chains(squares, &spread[0], &spread[1]);
  for (size_t parity = 0; parity < 2; ++parity) {
    out[3 * parity] = count[parity];
    out[3 * parity + 1] = mean[parity];
    out[3 * parity + 2] = spread[parity];
  }
}

// ---- rows of bf16 ----
// A word holds two elements: the even chains come from the lower halves and the odd ones from the
// upper halves, so no element moves, and the folds stay inside one parity. Several rows advance
// together because each chain waits for its own last addition.

constexpr size_t kParityVectors = kChains / 2 / hn::MaxLanes(Floats());
constexpr size_t kRowsTogether = kParityVectors == 1 ? 4 : 2;

HWY_INLINE U words_at(const std::byte* row, size_t k) {
  return hn::LoadU(Words(), reinterpret_cast<const uint32_t*>(row + 2 * k));
}
HWY_INLINE V even_of(U pairs) { return as_float(hn::ShiftLeft<16>(pairs)); }
HWY_INLINE V odd_of(U pairs) { return as_float(hn::And(pairs, set_bits(0xFFFF0000u))); }

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE float halve(Floats, V v) { return hn::GetLane(v); }
#else
template <class D>
HWY_INLINE float halve(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> half;
    return halve(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#endif
// Chains of one parity: q + 16 is 8 further on, and so forth.
HWY_INLINE float fold_parity(V* sums) {
  for (size_t width = kParityVectors / 2; width > 0; width /= 2) {
    for (size_t v = 0; v < width; ++v) sums[v] = hn::Add(sums[v], sums[v + width]);
  }
  return halve(Floats(), sums[0]);
}

template <size_t kRows>
HWY_INLINE void parity_bf16(const SourceRows& x, size_t n, float* out) {
  const size_t lanes = hn::Lanes(Floats());
  V even[kRows][kParityVectors], odd[kRows][kParityVectors];
  const auto clear = [&]() HWY_ATTR {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kParityVectors; ++v) even[r][v] = odd[r][v] = hn::Zero(Floats());
    }
  };
  clear();
  const std::byte* rows[kRows];
  for (size_t r = 0; r < kRows; ++r) rows[r] = x.from_row(r).data;
  for (size_t k = 0; k < n; k += kChains) {
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t v = 0; v < kParityVectors; ++v) {
        const U pairs = words_at(rows[r], k + 2 * v * lanes);
        even[r][v] = hn::Add(even[r][v], even_of(pairs));
        odd[r][v] = hn::Add(odd[r][v], odd_of(pairs));
      }
    }
  }
  const float count = static_cast<float>(n / 2);
  V mean[kRows][2];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t parity = 0; parity < 2; ++parity) {
      const float value = fold_parity(parity == 0 ? even[r] : odd[r]) / count;
      mean[r][parity] = set(value);
      out[6 * r + 3 * parity] = count;
      out[6 * r + 3 * parity + 1] = value;
    }
  }
  clear();
  const size_t next = kRows * x.stride;
  for (size_t k = 0; k < n; k += kChains) {
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
      // Rows lie pages apart, where hardware prefetchers do not follow.
      __builtin_prefetch(rows[r] + next + k * sizeof(uint16_t));
#pragma GCC unroll 16
      for (size_t v = 0; v < kParityVectors; ++v) {
        const U pairs = words_at(rows[r], k + 2 * v * lanes);
        const V away = hn::Sub(even_of(pairs), mean[r][0]);
        even[r][v] = fma(away, away, even[r][v]);
        const V other = hn::Sub(odd_of(pairs), mean[r][1]);
        odd[r][v] = fma(other, other, odd[r][v]);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    out[6 * r + 2] = fold_parity(even[r]);
    out[6 * r + 5] = fold_parity(odd[r]);
  }
}

HWY_NOINLINE void parity_bf16_kernel(const SourceRows& x, size_t rows, size_t n, float* out) {
  size_t r = 0;
  for (; r + kRowsTogether <= rows; r += kRowsTogether) {
    parity_bf16<kRowsTogether>(x.from_row(r), n, out + 6 * r);
  }
  for (; r < rows; ++r) parity_bf16<1>(x.from_row(r), n, out + 6 * r);
}

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::numerics {
namespace {

constexpr size_t kLongest = 512;  // elements of a row of bn_stats

float canonical_of(float value) {
  return value == value ? value : std::bit_cast<float>(0x7FC00000u);
}

__attribute__((noinline)) void combine(const float* triples, size_t k, float* out) {
  float total = 0.0f;
  float weighted = 0.0f;
  for (size_t t = 0; t < k; ++t) {
    total = total + triples[3 * t];
    weighted = weighted + triples[3 * t] * triples[3 * t + 1];
  }
  const float mean = weighted / total;
  float spread = 0.0f;
  for (size_t t = 0; t < k; ++t) {
    const float away = triples[3 * t + 1] - mean;
    spread = spread + (triples[3 * t + 2] + triples[3 * t] * (away * away));
  }
  out[0] = canonical_of(mean);
  out[1] = canonical_of(spread / total);
}

}  // namespace

void parity_statistics(const float* x, size_t n, float out[6], Subnormals subnormals) {
  parity_statistics_rows(x, 0, 1, n, out, subnormals);
}

void parity_statistics_rows(const float* x, ptrdiff_t stride, size_t rows, size_t n, float* out,
                            Subnormals subnormals) {
  const FloatScope environment(subnormals);
  n = std::min(n, kLongest);
  for (size_t r = 0; r < rows; ++r, x += stride, out += 6) {
    float flushed[kLongest];
    const float* row = x;
    if (subnormals == Subnormals::kFlush) {
      copy_flushed(x, flushed, n);
      row = flushed;
    }
    NEURON_ON_SIMD_PATH(parity_kernel, row, n, out);
    for (int i = 0; i < 6; ++i) out[i] = canonical_of(out[i]);
  }
}

bool parity_statistics_bf16(const SourceRows& x, size_t rows, size_t n, float* out) {
  if (n == 0 || n % kChains != 0 || n > kLongest) return false;
  const FloatScope environment(Subnormals::kKeep);
  NEURON_ON_SIMD_PATH(parity_bf16_kernel, x, rows, n, out);
  for (size_t i = 0; i < 6 * rows; ++i) out[i] = canonical_of(out[i]);
  return true;
}

void combine_statistics(const float* triples, size_t k, float out[2], Subnormals subnormals) {
  const FloatScope environment(subnormals);
  combine(triples, k, out);
}

}  // namespace neuron::numerics
#endif
