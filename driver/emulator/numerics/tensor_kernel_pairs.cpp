// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/tensor_kernel_pairs.h"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "driver/emulator/numerics/float_environment.h"
#include "driver/emulator/numerics/tensor_kernel_scalar.h"
#include "driver/emulator/numerics/tensor_kernel_trial.h"

// The library is compiled for processors without these instructions, too.
#define NEURON_PAIRS_TARGET \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")))

namespace neuron::numerics::pairs {
namespace {

constexpr size_t kLanes = 16;
constexpr int kVectors = kBlockColumns / kLanes;
constexpr uint16_t kZeros[kMaxMoving] = {};

int padded(int k) { return (k + kStep - 1) / kStep * kStep; }

// The first n values of two rows as pairs, at most 16: those of `first` in the upper halves.
NEURON_PAIRS_TARGET inline __m512i paired(const uint16_t* first, const uint16_t* second, size_t n) {
  const __mmask16 present = n >= kLanes ? __mmask16{0xFFFF} : static_cast<__mmask16>((1u << n) - 1);
  const __m512i upper =
      _mm512_maskz_cvtepu16_epi32(present, _mm256_maskz_loadu_epi16(present, first));
  const __m512i lower =
      _mm512_maskz_cvtepu16_epi32(present, _mm256_maskz_loadu_epi16(present, second));
  return _mm512_or_si512(_mm512_maskz_slli_epi32(present, upper, 16), lower);
}

// MR x NV result vectors over the whole depth: 3 x 4 x 2 accumulators take 24 of 32 registers.
template <int MR, int NV>
NEURON_PAIRS_TARGET void micro_tile(const uint32_t* a, const uint32_t* b, int k, float* c,
                                    ptrdiff_t c_stride, bool accumulate) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7FC00000));
  for (int base = 0; base < k; base += kStep) {
    __m512 even[MR][NV], odd[MR][NV];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) even[i][j] = odd[i][j] = _mm512_setzero_ps();
    }
#pragma GCC unroll 1
    for (int quad = 0; quad < kStep / kQuad; ++quad) {
      __m512i row[NV];
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) {
        row[j] = _mm512_load_si512(b + j * kLanes);
        __asm__("" : "+v"(row[j]));  // one load, not one for each use
      }
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m512i w = _mm512_set1_epi32(static_cast<int>(a[i]));
#pragma GCC unroll 8
        for (int j = 0; j < NV; ++j) {
          even[i][j] = _mm512_dpbf16_ps(even[i][j], (__m512bh)w, (__m512bh)row[j]);
        }
      }
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) {
        row[j] = _mm512_load_si512(b + kBlockColumns + j * kLanes);
        __asm__("" : "+v"(row[j]));
      }
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const __m512i w = _mm512_set1_epi32(static_cast<int>(a[kTile + i]));
#pragma GCC unroll 8
        for (int j = 0; j < NV; ++j) {
          odd[i][j] = _mm512_dpbf16_ps(odd[i][j], (__m512bh)w, (__m512bh)row[j]);
        }
      }
      a += 2 * kTile;
      b += 2 * kBlockColumns;
    }
    const bool from_zero = base == 0 && !accumulate;
    const bool last = base + kStep >= k;
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) {
        float* cell = c + i * c_stride + j * static_cast<ptrdiff_t>(kLanes);
        const __m512 start = from_zero ? _mm512_setzero_ps() : _mm512_loadu_ps(cell);
        __m512 sum = _mm512_add_ps(start, _mm512_add_ps(even[i][j], odd[i][j]));
        if (last) {
          sum = _mm512_mask_mov_ps(sum, _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q), nan);
        }
        _mm512_storeu_ps(cell, sum);
      }
    }
  }
}

// MR rows of the result, all columns of the block.
template <int MR>
NEURON_PAIRS_TARGET void tile_rows(const uint32_t* a, const uint32_t* b, int k, size_t n, float* c,
                                   ptrdiff_t c_stride, bool accumulate) {
  if (n == kBlockColumns) return micro_tile<MR, kVectors>(a, b, k, c, c_stride, accumulate);
  size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    micro_tile<MR, 1>(a, b + j, k, c + j, c_stride, accumulate);
  }
  if (j == n) return;
  // The last, partial vector goes through a copy: nothing beyond column n is read or written.
  const size_t rest = n - j;
  alignas(64) float edge[MR * kLanes] = {};
  for (int i = 0; accumulate && i < MR; ++i) {
    std::memcpy(edge + i * kLanes, c + i * c_stride + j, rest * sizeof(float));
  }
  micro_tile<MR, 1>(a, b + j, k, edge, kLanes, accumulate);
  for (int i = 0; i < MR; ++i) {
    std::memcpy(c + i * c_stride + j, edge + i * kLanes, rest * sizeof(float));
  }
}

bool processor_has_instruction() {
  unsigned a, b, c, d;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq")) {
    return false;
  }
  constexpr unsigned kBf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & kBf16) != 0;
}

// Products of 7 rows, 20 columns and 64 deep: ordinary values, tiny ones, infinities, NaN.
bool gives_the_defined_bits() {
  constexpr int kRows = 7, kDeep = 64;
  constexpr size_t kColumns = 20;
  TrialValues trial;
  for (int round = 0; round < TrialValues::kRounds; ++round) {
    struct Matrix {
      size_t columns;
      std::vector<uint16_t> codes;
      std::vector<float> values;
    };
    Matrix a{kRows, {}, {}}, b{kColumns, {}, {}};
    for (Matrix* matrix : {&a, &b}) {
      for (size_t i = 0; i < kDeep * matrix->columns; ++i) {
        matrix->codes.push_back(trial.next(round));
        matrix->values.push_back(TrialValues::value_of(matrix->codes.back()));
      }
    }
    const Row row = [](void* context, int r) {
      const auto* matrix = static_cast<const Matrix*>(context);
      return matrix->codes.data() + static_cast<size_t>(r) * matrix->columns;
    };
    alignas(64) uint32_t weights[kWeights], moving[kMoving];
    pack_stationary(row, &a, kDeep, kRows, weights);
    pack_moving(row, &b, kDeep, kColumns, moving);
    const float start = TrialValues::start_of(round);
    std::vector<float> found(kRows * kColumns, start);
    {
      const FlushScope environment;
      multiply(weights, kRows, kDeep, moving, kColumns, found.data(), kColumns, true);
    }
    for (size_t m = 0; m < kRows; ++m) {
      for (size_t n = 0; n < kColumns; ++n) {
        const float expected = dot_in_engine_order(a.values.data() + m, kRows, b.values.data() + n,
                                                   kColumns, kDeep, start);
        const float got = found[m * kColumns + n];
        if (!TrialValues::same(expected, got)) return false;
      }
    }
  }
  return true;
}

}  // namespace

bool available() {
  static const bool good = processor_has_instruction() && gives_the_defined_bits();
  return good;
}

NEURON_PAIRS_TARGET void pack_stationary(Row row, void* context, int k, int m, uint32_t* packed) {
  const int quads = padded(k) / kQuad;
  const int tiles = (m + kTile - 1) / kTile;
  alignas(64) uint32_t line[(kTiles * kTile + kLanes - 1) / kLanes * kLanes] = {};
  for (int quad = 0; quad < quads; ++quad) {
    const uint16_t* rows[kQuad];
    for (int r = 0; r < kQuad; ++r) {
      rows[r] = kQuad * quad + r < k ? row(context, kQuad * quad + r) : kZeros;
    }
    for (int parity = 0; parity < 2; ++parity) {
      for (size_t i = 0; i < static_cast<size_t>(m); i += kLanes) {
        _mm512_store_si512(line + i, paired(rows[parity] + i, rows[parity + 2] + i, m - i));
      }
      uint32_t* to = packed + static_cast<ptrdiff_t>(2 * quad + parity) * kTile;
      const ptrdiff_t tile = static_cast<ptrdiff_t>(2 * quads) * kTile;
      if (quad == quads - 1 && parity == 1) {
        for (int t = 0; t < tiles; ++t) {
          std::memcpy(to + t * tile, line + t * kTile, kTile * sizeof(uint32_t));
        }
        continue;
      }
      // One number more than belongs there, which the next pair replaces: a copy of 16 bytes is one
      // instruction, one of 12 is two.
      for (int t = 0; t < tiles; ++t) {
        std::memcpy(to + t * tile, line + t * kTile, (kTile + 1) * sizeof(uint32_t));
      }
    }
  }
}

uint16_t packed_value(const uint32_t* packed, int k, int m, int depth) {
  const int quads = padded(depth) / kQuad;
  const int at = (m / kTile * quads + k / kQuad) * 2 + k % 2;
  const uint32_t pair = packed[at * kTile + m % kTile];
  return static_cast<uint16_t>(k % kQuad < 2 ? pair >> 16 : pair);
}

NEURON_PAIRS_TARGET void pack_moving(Row row, void* context, int k, size_t columns,
                                     uint32_t* packed) {
  const int quads = padded(k) / kQuad;
  for (int quad = 0; quad < quads; ++quad) {
    const uint16_t* rows[kQuad];
    for (int r = 0; r < kQuad; ++r) {
      rows[r] = kQuad * quad + r < k ? row(context, kQuad * quad + r) : kZeros;
    }
    for (int parity = 0; parity < 2; ++parity, packed += kBlockColumns) {
      for (size_t n = 0; n < columns; n += kLanes) {
        uint32_t* to = packed + n / kBlockColumns * kMoving + n % kBlockColumns;
        _mm512_store_si512(to, paired(rows[parity] + n, rows[parity + 2] + n, columns - n));
      }
    }
  }
}

void multiply(const uint32_t* weights, int m, int k, const uint32_t* moving, size_t columns,
              float* c, ptrdiff_t c_stride, bool accumulate) {
  const int depth = padded(k);
  const ptrdiff_t tile = static_cast<ptrdiff_t>(depth) / 2 * kTile;
  for (int row = 0; row < m; row += kTile, weights += tile, c += kTile * c_stride) {
    switch (m - row) {
      case 1:
        tile_rows<1>(weights, moving, depth, columns, c, c_stride, accumulate);
        break;
      case 2:
        tile_rows<2>(weights, moving, depth, columns, c, c_stride, accumulate);
        break;
      default:
        tile_rows<3>(weights, moving, depth, columns, c, c_stride, accumulate);
    }
  }
}

}  // namespace neuron::numerics::pairs
