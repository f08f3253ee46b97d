// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/activation.h"

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "driver/emulator/numerics/activation.cpp"
#include "driver/emulator/numerics/simd_targets.h"
//
#include <hwy/foreach_target.h>

#include "driver/emulator/numerics/simd_math-inl.h"
//
#include "driver/emulator/numerics/activation_programs-inl.h"
#include "driver/emulator/numerics/row_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace neuron::numerics::HWY_NAMESPACE {

// A NaN input gives NaN, whatever the program computed from it. So a NaN between scale, bias and
// program need not be canonical. kPlain: rows without scales and biases have a loop of their own,
// which costs as much to compile again and saves two tests a vector.
template <bool kPlain = false, class Function>
HWY_INLINE void rows_of(const Function& function, const ActivationRows& work, size_t rows,
                        size_t n) {
  [[maybe_unused]] const bool plain = work.scales == nullptr && work.biases == nullptr;
  for (size_t r = 0; r < rows; ++r) {
    const SourceRows x = work.x.from_row(r);
    const ResultRows out = work.out.from_row(r);
    if constexpr (kPlain) {
      if (plain) {
        map_row(function, x, out, n);
        continue;
      }
    }
    const bool scaled = work.scales != nullptr;
    const bool biased = work.biases != nullptr;
    const V scale = set(scaled ? work.scales[r] : 1.0f);
    const V bias = set(biased ? work.biases[r] : 0.0f);
    map_row(
        [&function, scaled, biased, scale, bias](V x) NEURON_INLINED {
          if (scaled) x = hn::Mul(x, scale);
          if (biased) x = hn::Add(x, bias);
          return function(x);
        },
        x, out, n);
  }
}

// The result, or the canonical NaN where it or the input is one.
HWY_INLINE V nan_of_either(V x, V result) {
#if HWY_TARGET == HWY_AVX3
  // One comparison is unordered for both.
  const __mmask16 either = _mm512_cmp_ps_mask(x.raw, result.raw, _CMP_UNORD_Q);
  return V{_mm512_mask_mov_ps(result.raw, either, nan().raw)};
#else
  return select(hn::IsNaN(x), nan(), canonical(result));
#endif
}

template <V (*Program)(V), bool kPlain = false>
HWY_INLINE void run(const ActivationRows& work, size_t rows, size_t n) {
  rows_of<kPlain>([](V x) NEURON_INLINED { return nan_of_either(x, Program(x)); }, work, rows, n);
}

HWY_INLINE void run_prelu(const ActivationRows& work, size_t rows, size_t n) {
  const V s = set(work.param);
  rows_of([s](V x)
              NEURON_INLINED { return canonical(select(hn::Lt(x, zero()), hn::Mul(x, s), x)); },
          work, rows, n);
}

HWY_NOINLINE void activation_kernel(unsigned function, const ActivationRows& work, size_t rows,
                                    size_t n) {
  switch (function) {
    case NEURON_ACT_SQUARE:
      return run<square, true>(work, rows, n);
    case NEURON_ACT_SIGMOID:
      return run<sigmoid>(work, rows, n);
    case NEURON_ACT_RELU:
      return run<relu, true>(work, rows, n);
    case NEURON_ACT_PRELU:
      return run_prelu(work, rows, n);
    case NEURON_ACT_GELU:
      return run<gelu, true>(work, rows, n);
    case NEURON_ACT_GELU_DX:
      return run<gelu_dx>(work, rows, n);
    case NEURON_ACT_GELU_TANH:
      return run<gelu_tanh>(work, rows, n);
    case NEURON_ACT_GELU_SIGMOID:
      return run<gelu_sigmoid>(work, rows, n);
    case NEURON_ACT_GELU_SIGMOID_DX:
      return run<gelu_sigmoid_dx>(work, rows, n);
    case NEURON_ACT_SILU:
      return run<silu>(work, rows, n);
    case NEURON_ACT_SILU_DX:
      return run<silu_dx>(work, rows, n);
    case NEURON_ACT_TANH:
      return run<tanh_of>(work, rows, n);
    case NEURON_ACT_SOFTPLUS:
      return run<softplus>(work, rows, n);
    case NEURON_ACT_MISH:
      return run<mish>(work, rows, n);
    case NEURON_ACT_ERF:
      return run<erf_of>(work, rows, n);
    case NEURON_ACT_ERF_DX:
      return run<erf_dx>(work, rows, n);
    case NEURON_ACT_EXP:
      return run<exp_of, true>(work, rows, n);
    case NEURON_ACT_SIGN:
      return run<sign>(work, rows, n);
    case NEURON_ACT_ABS:
      return run<magnitude, true>(work, rows, n);
    case NEURON_ACT_LOG:
      return run<log_of>(work, rows, n);
    case NEURON_ACT_SIN:
      return run<sin_of>(work, rows, n);
    case NEURON_ACT_ARCTAN:
      return run<arctan>(work, rows, n);
    case NEURON_ACT_SQRT:
      return run<sqrt_of>(work, rows, n);
    case NEURON_ACT_RSQRT:
      return run<rsqrt>(work, rows, n);
    case NEURON_ACT_RECIPROCAL:
      return run<reciprocal>(work, rows, n);
    default:
      return rows_of([](V) HWY_ATTR { return nan(); }, work, rows, n);
  }
}

}  // namespace neuron::numerics::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuron::numerics {
namespace {

constexpr size_t kChunk = 256;  // elements whose operands are flushed together, on the stack

// The documented input range, closed; magnitudes for reciprocal.
struct Domain {
  float low;
  float high;
};

Domain domain_of(unsigned function) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (function) {
    case NEURON_ACT_LOG:
      return {0x1p-64f, 0x1p64f};
    case NEURON_ACT_SIN:
      return {-0x1.921fb6p+1f, 0x1.921fb6p+1f};
    case NEURON_ACT_ARCTAN:
      return {-0x1.921fb6p+0f, 0x1.921fb6p+0f};
    case NEURON_ACT_SQRT:
      return {0x1p-116f, 0x1p118f};
    case NEURON_ACT_RSQRT:
      return {0x1p-87f, 0x1p97f};
    case NEURON_ACT_RECIPROCAL:
      return {0x1p-42f, 0x1p42f};
    default:
      return {-kInfinity, kInfinity};
  }
}

}  // namespace

bool activation_known(unsigned function) { return function <= NEURON_ACT_RECIPROCAL; }

void activate(unsigned function, const float* in, float* out, size_t n, float param,
              Subnormals subnormals) {
  if (function == NEURON_ACT_COPY) {
    if (out != in) std::memcpy(out, in, n * sizeof(float));
    return;
  }
  const FloatScope environment(subnormals);
  ActivationRows work;
  work.param = param;
  if (subnormals == Subnormals::kKeep) {
    work.x.data = reinterpret_cast<const std::byte*>(in);
    work.out.data = reinterpret_cast<std::byte*>(out);
    NEURON_ON_SIMD_PATH(activation_kernel, function, work, 1, n);
    return;
  }
  copy_flushed(&work.param, &work.param, 1);
  float flushed[kChunk];
  for (size_t first = 0; first < n; first += kChunk) {
    const size_t count = std::min(kChunk, n - first);
    copy_flushed(in + first, flushed, count);
    work.x.data = reinterpret_cast<const std::byte*>(flushed);
    work.out.data = reinterpret_cast<std::byte*>(out + first);
    NEURON_ON_SIMD_PATH(activation_kernel, function, work, 1, count);
  }
}

void activate_rows(unsigned function, const ActivationRows& work, size_t rows, size_t n) {
  const FloatScope environment(Subnormals::kKeep);
  NEURON_ON_SIMD_PATH(activation_kernel, function, work, rows, n);
}

bool activation_has_domain(unsigned function) {
  return domain_of(function).high < std::numeric_limits<float>::infinity();
}

size_t count_outside_domain(unsigned function, const float* in, size_t n) {
  const Domain domain = domain_of(function);
  const bool by_size = function == NEURON_ACT_RECIPROCAL;
  size_t outside = 0;
  for (size_t i = 0; i < n; ++i) {
    const float x = by_size && in[i] < 0 ? -in[i] : in[i];
    // NaN counts as outside only if the function has a limited range; a function of all reals
    // passes NaN on.
    const bool below = x<domain.low, above = x> domain.high;
    const bool unordered = x != x && domain.high < std::numeric_limits<float>::infinity();
    outside += below || above || unordered;
  }
  return outside;
}

}  // namespace neuron::numerics
#endif
