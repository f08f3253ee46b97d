// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/row_peers.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>

// Compiled for AVX-512 as a whole (CMakeLists.txt); called only where that runs.
// NOLINTBEGIN(bugprone-reserved-identifier): the names are the library's
extern "C" __m512 _ZGVeN16v_expf(__m512);
extern "C" __m512 _ZGVeN16v_erff(__m512);
// NOLINTEND(bugprone-reserved-identifier)

namespace neuron::bench {
namespace {

constexpr size_t kMaxColumns = 8192;

__m512 widen(const uint16_t* in) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// Nearest even; the inputs of these kernels give no NaN.
void narrow(__m512 value, uint16_t* out) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i lsb = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(lsb, _mm512_set1_epi32(0x7FFF)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

}  // namespace

bool row_peers_available() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

void softmax_rows(const uint16_t* in, uint16_t* out, size_t rows, size_t columns) {
  alignas(64) static thread_local float row[kMaxColumns];
  for (size_t r = 0; r < rows; ++r, in += columns, out += columns) {
    __m512 largest = _mm512_set1_ps(-INFINITY);
    for (size_t c = 0; c < columns; c += 16) largest = _mm512_max_ps(largest, widen(in + c));
    const __m512 bias = _mm512_set1_ps(_mm512_reduce_max_ps(largest));
    __m512 sum = _mm512_setzero_ps();
    for (size_t c = 0; c < columns; c += 16) {
      const __m512 e = _ZGVeN16v_expf(_mm512_sub_ps(widen(in + c), bias));
      _mm512_store_ps(row + c, e);
      sum = _mm512_add_ps(sum, e);
    }
    const __m512 factor = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
    for (size_t c = 0; c < columns; c += 16) {
      narrow(_mm512_mul_ps(_mm512_load_ps(row + c), factor), out + c);
    }
  }
}

void layernorm_rows(const uint16_t* in, const float* gamma, const float* beta, uint16_t* out,
                    size_t rows, size_t columns) {
  for (size_t r = 0; r < rows; ++r, in += columns, out += columns) {
    __m512 sum = _mm512_setzero_ps();
    for (size_t c = 0; c < columns; c += 16) sum = _mm512_add_ps(sum, widen(in + c));
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / static_cast<float>(columns));
    __m512 squares = _mm512_setzero_ps();
    for (size_t c = 0; c < columns; c += 16) {
      const __m512 d = _mm512_sub_ps(widen(in + c), mean);
      squares = _mm512_fmadd_ps(d, d, squares);
    }
    const float variance = _mm512_reduce_add_ps(squares) / static_cast<float>(columns);
    const __m512 factor = _mm512_set1_ps(1.0f / std::sqrt(variance + 1e-5f));
    for (size_t c = 0; c < columns; c += 16) {
      const __m512 y = _mm512_mul_ps(_mm512_sub_ps(widen(in + c), mean), factor);
      narrow(_mm512_fmadd_ps(y, _mm512_loadu_ps(gamma + c), _mm512_loadu_ps(beta + c)), out + c);
    }
  }
}

void gelu_rows(const uint16_t* in, uint16_t* out, size_t rows, size_t columns) {
  const __m512 half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1.0f);
  const __m512 scale = _mm512_set1_ps(0.70710678f);
  for (size_t i = 0; i < rows * columns; i += 16) {
    const __m512 x = widen(in + i);
    const __m512 phi =
        _mm512_mul_ps(half, _mm512_add_ps(one, _ZGVeN16v_erff(_mm512_mul_ps(x, scale))));
    narrow(_mm512_mul_ps(x, phi), out + i);
  }
}

void softmax_block(const ScoreBlock& block, bool first, const RunningRows& running,
                   uint16_t* weights) {
  constexpr size_t kLanes = 16;
  const __m512 scale = _mm512_set1_ps(block.scale), nothing = _mm512_set1_ps(-INFINITY);
  for (size_t r = 0; r < block.rows; ++r, weights += block.columns) {
    const float* row = block.scores + r * block.columns;
    const size_t visible = std::min(block.visible + r, block.columns);
    const size_t whole = visible / kLanes * kLanes;
    const auto rest = static_cast<__mmask16>((1U << (visible - whole)) - 1);
    // Several at a time, so that the steps of one need not wait for those of another.
    __m512 largest[4] = {nothing, nothing, nothing, nothing};
    size_t c = 0;
    for (; c + 4 * kLanes <= whole; c += 4 * kLanes) {
      for (size_t i = 0; i < 4; ++i) {
        largest[i] = _mm512_max_ps(largest[i], _mm512_loadu_ps(row + c + i * kLanes));
      }
    }
    for (; c < whole; c += kLanes) {
      largest[0] = _mm512_max_ps(largest[0], _mm512_loadu_ps(row + c));
    }
    if (rest != 0) {
      largest[1] = _mm512_mask_max_ps(largest[1], rest, largest[1],
                                      _mm512_maskz_loadu_ps(rest, row + whole));
    }
    const __m512 greatest =
        _mm512_max_ps(_mm512_max_ps(largest[0], largest[1]), _mm512_max_ps(largest[2], largest[3]));
    const float here = block.scale * _mm512_reduce_max_ps(greatest);
    const float before = first ? -INFINITY : running.maxima[r];
    const float maximum = std::max(before, here);
    const __m512 bias = _mm512_set1_ps(maximum);
    __m512 sum = _mm512_setzero_ps();
    for (c = 0; c < whole; c += kLanes) {
      const __m512 e = _ZGVeN16v_expf(_mm512_fmsub_ps(_mm512_loadu_ps(row + c), scale, bias));
      narrow(e, weights + c);
      sum = _mm512_add_ps(sum, e);
    }
    if (rest != 0) {
      const __m512 x = _mm512_maskz_loadu_ps(rest, row + whole);
      const __m512 e = _mm512_maskz_mov_ps(rest, _ZGVeN16v_expf(_mm512_fmsub_ps(x, scale, bias)));
      narrow(e, weights + whole);
      sum = _mm512_add_ps(sum, e);
      c += kLanes;
    }
    std::fill(weights + c, weights + block.columns, uint16_t{0});
    running.maxima[r] = maximum;
    const float total = _mm512_reduce_add_ps(sum);
    if (first) {
      running.totals[r] = total;
      continue;
    }
    const float shrink = before == maximum ? 1.0f : std::exp(before - maximum);
    running.totals[r] = running.totals[r] * shrink + total;
    if (shrink == 1.0f) continue;
    float* sums = running.sums + r * running.size;
    for (c = 0; c < running.size; c += kLanes) {
      _mm512_storeu_ps(sums + c, _mm512_mul_ps(_mm512_loadu_ps(sums + c), _mm512_set1_ps(shrink)));
    }
  }
}

void finish_rows(const RunningRows& running, size_t rows, uint16_t* out) {
  const float* sums = running.sums;
  for (size_t r = 0; r < rows; ++r, sums += running.size, out += running.size) {
    const __m512 factor = _mm512_set1_ps(1.0f / running.totals[r]);
    for (size_t c = 0; c < running.size; c += 16) {
      narrow(_mm512_mul_ps(_mm512_loadu_ps(sums + c), factor), out + c);
    }
  }
}

}  // namespace neuron::bench
