// SPDX-License-Identifier: Apache-2.0
// The Tensor engine's product in tiles of the AMX shape: 16 rows of 32 bf16 values.
//
// One tile multiplication is one 32-deep step of the engine's order (tensor_kernel.h): a chain of
// fused multiply-adds over the even k, one over the odd k, their sum added to the cell, with
// subnormals flushed. So the loop here only walks the steps in order.
// `Tiles` gives eight tile registers: zero, load, store, multiply. They are the processor's
// (tensor_kernel_amx.cpp), or a model in the tests, which check packing and order on hosts without
// AMX. Callers: those two. Thread-safe: no state of its own. Cannot fail.
#ifndef DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_TILES_INL_H
#define DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_TILES_INL_H

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

#include "driver/emulator/numerics/transpose.h"

namespace neuron::numerics::tiles {

inline constexpr int kRows = 16;   // of a tile
inline constexpr int kDepth = 32;  // bf16 values in a row of the stationary tile
inline constexpr int kValues = kRows * kDepth;
inline constexpr ptrdiff_t kRowBytes = 64;
inline constexpr int kMaxColumns = 128;      // of the stationary matrix
inline constexpr size_t kBlockColumns = 64;  // of the moving matrix, packed at a time

// Two rows of the moving matrix as one tile row: pairs of values of the same column.
inline void interleave(const uint16_t* even, const uint16_t* odd, uint16_t* out) {
  constexpr int kHalves = sizeof(__m128i) / sizeof(uint16_t);
  for (int n = 0; n < kRows; n += kHalves) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(even + n));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(odd + n));
    auto* to = reinterpret_cast<__m128i*>(out + 2 * n);
    _mm_storeu_si128(to, _mm_unpacklo_epi16(a, b));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(a, b));
  }
}

// MT x NT tiles of the result over the whole depth. `a` and `b` are packed tiles, those of one row
// (column) of tiles `steps` tiles apart.
template <class Tiles, int MT, int NT>
inline void multiply_block(const uint16_t* a, const uint16_t* b, int steps, float* c,
                           ptrdiff_t c_stride, bool accumulate) {
  const ptrdiff_t bytes = c_stride * static_cast<ptrdiff_t>(sizeof(float));
  float* lower = c + kRows * c_stride;
  if (accumulate) {
    Tiles::template load<0>(c, bytes);
    if constexpr (NT == 2) Tiles::template load<1>(c + kRows, bytes);
    if constexpr (MT == 2) Tiles::template load<2>(lower, bytes);
    if constexpr (MT == 2 && NT == 2) Tiles::template load<3>(lower + kRows, bytes);
  } else {
    Tiles::template zero<0>();
    if constexpr (NT == 2) Tiles::template zero<1>();
    if constexpr (MT == 2) Tiles::template zero<2>();
    if constexpr (MT == 2 && NT == 2) Tiles::template zero<3>();
  }
  for (int step = 0; step < steps; ++step) {
    Tiles::template load<4>(a + step * kValues, kRowBytes);
    Tiles::template load<6>(b + step * kValues, kRowBytes);
    Tiles::template multiply<0, 4, 6>();
    if constexpr (NT == 2) {
      Tiles::template load<7>(b + (steps + step) * kValues, kRowBytes);
      Tiles::template multiply<1, 4, 7>();
    }
    if constexpr (MT == 2) {
      Tiles::template load<5>(a + (steps + step) * kValues, kRowBytes);
      Tiles::template multiply<2, 5, 6>();
    }
    if constexpr (MT == 2 && NT == 2) Tiles::template multiply<3, 5, 7>();
  }
  Tiles::template store<0>(c, bytes);
  if constexpr (NT == 2) Tiles::template store<1>(c + kRows, bytes);
  if constexpr (MT == 2) Tiles::template store<2>(lower, bytes);
  if constexpr (MT == 2 && NT == 2) Tiles::template store<3>(lower + kRows, bytes);
}

// All m rows of `columns` columns of the result; both multiples of 16.
template <class Tiles>
inline void multiply_columns(const uint16_t* weights, int m, const uint16_t* moving, size_t columns,
                             int steps, float* c, ptrdiff_t c_stride, bool accumulate) {
  for (size_t n = 0; n < columns; n += 2 * kRows) {
    const uint16_t* b = moving + n / kRows * steps * kValues;
    const bool wide = n + kRows < columns;
    for (int row = 0; row < m; row += 2 * kRows) {
      const uint16_t* a = weights + static_cast<ptrdiff_t>(row / kRows) * steps * kValues;
      float* cell = c + row * c_stride + n;
      if (row + kRows < m) {
        wide ? multiply_block<Tiles, 2, 2>(a, b, steps, cell, c_stride, accumulate)
             : multiply_block<Tiles, 2, 1>(a, b, steps, cell, c_stride, accumulate);
      } else {
        wide ? multiply_block<Tiles, 1, 2>(a, b, steps, cell, c_stride, accumulate)
             : multiply_block<Tiles, 1, 1>(a, b, steps, cell, c_stride, accumulate);
      }
    }
  }
}

// Packs `columns` columns (a multiple of 16, at most kBlockColumns) of `k` rows, padded to whole
// steps with +0. row(r) points to the bf16 values of row r, from the first of these columns.
template <class Row>
inline void pack_moving(Row&& row, int k, int steps, size_t columns, uint16_t* packed) {
  static constexpr uint16_t kZeros[kBlockColumns] = {};
  for (int pair = 0; pair < steps * kRows; ++pair) {
    const uint16_t* even = 2 * pair < k ? row(2 * pair) : kZeros;
    const uint16_t* odd = 2 * pair + 1 < k ? row(2 * pair + 1) : kZeros;
    const int step = pair / kRows;
    for (size_t n = 0; n < columns; n += kRows) {
      interleave(even + n, odd + n,
                 packed + (n / kRows * steps + step) * kValues + pair % kRows * kDepth);
    }
  }
}

// Packs `k` rows of m values (a multiple of 16) of the stationary matrix, padded to whole steps
// with +0. row(r) points to the bf16 values of row r.
template <class Row>
inline void pack_stationary(Row&& row, int k, int m, int steps, uint16_t* packed) {
  static constexpr uint16_t kZeros[kMaxColumns] = {};
  // The pairs of a step, a row of them for two rows; a tile is a square of it, transposed.
  alignas(64) float pairs[kRows][kMaxColumns];
  for (int step = 0; step < steps; ++step) {
    for (int pair = 0; pair < kRows; ++pair) {
      const int r = step * kDepth + 2 * pair;
      const uint16_t* even = r < k ? row(r) : kZeros;
      const uint16_t* odd = r + 1 < k ? row(r + 1) : kZeros;
      for (int column = 0; column < m; column += kRows) {
        interleave(even + column, odd + column, reinterpret_cast<uint16_t*>(pairs[pair] + column));
      }
    }
    for (int column = 0; column < m; column += kRows) {
      uint16_t* tile = packed + static_cast<ptrdiff_t>(column / kRows * steps + step) * kValues;
      transpose(pairs[0] + column, kMaxColumns, kRows, kRows, reinterpret_cast<float*>(tile),
                kRows);
    }
  }
}

// The value of row k, column m in what pack_stationary wrote.
inline uint16_t packed_value(const uint16_t* packed, int k, int m, int steps) {
  return packed[(m / kRows * steps + k / kDepth) * kValues + m % kRows * kDepth + k % kDepth];
}

}  // namespace neuron::numerics::tiles
#endif
