// SPDX-License-Identifier: Apache-2.0
// Transposition of packed elements of 16 and 32 bits, bits untouched.
//
// Callers: units whose partitions are independent chains along the free dimension (scans) and which
// therefore compute on columns; the PE. Plain loads, stores and shuffles: the same on every host.
#ifndef DRIVER_EMULATOR_NUMERICS_TRANSPOSE_H
#define DRIVER_EMULATOR_NUMERICS_TRANSPOSE_H

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace neuron::numerics {

// A square of 4 x 4 words.
inline void transpose_square(const float* in, size_t in_stride, float* out, size_t out_stride) {
  __m128 r0 = _mm_loadu_ps(in);
  __m128 r1 = _mm_loadu_ps(in + in_stride);
  __m128 r2 = _mm_loadu_ps(in + 2 * in_stride);
  __m128 r3 = _mm_loadu_ps(in + 3 * in_stride);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(out, r0);
  _mm_storeu_ps(out + out_stride, r1);
  _mm_storeu_ps(out + 2 * out_stride, r2);
  _mm_storeu_ps(out + 3 * out_stride, r3);
}

// A square of 8 x 8 halves of a word. Rows r and r + 4 are interleaved; three times, each row then
// holds all values of a column.
inline void transpose_square(const uint16_t* in, size_t in_stride, uint16_t* out,
                             size_t out_stride) {
  constexpr int kSide = 8;
  __m128i rows[kSide], mixed[kSide];
  for (int r = 0; r < kSide; ++r) {
    rows[r] =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + static_cast<size_t>(r) * in_stride));
  }
  const auto mix = [](const __m128i(&from)[kSide], __m128i(&to)[kSide]) {
    for (int r = 0; r < kSide / 2; ++r) {
      to[2 * r] = _mm_unpacklo_epi16(from[r], from[r + kSide / 2]);
      to[2 * r + 1] = _mm_unpackhi_epi16(from[r], from[r + kSide / 2]);
    }
  };
  mix(rows, mixed);
  mix(mixed, rows);
  mix(rows, mixed);
  for (int r = 0; r < kSide; ++r) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + static_cast<size_t>(r) * out_stride),
                     mixed[r]);
  }
}

// out[c * out_stride + r] = in[r * in_stride + c]; strides in elements. in and out do not overlap.
template <class Element>
inline void transpose(const Element* in, size_t in_stride, size_t rows, size_t columns,
                      Element* out, size_t out_stride) {
  constexpr size_t kSide = sizeof(__m128i) / sizeof(Element);
  const size_t whole_rows = rows - rows % kSide;
  const size_t whole_columns = columns - columns % kSide;
  for (size_t r = 0; r < whole_rows; r += kSide) {
    for (size_t c = 0; c < whole_columns; c += kSide) {
      transpose_square(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
    }
  }
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      std::memcpy(out + c * out_stride + r, in + r * in_stride + c, sizeof(Element));
    }
  }
}

}  // namespace neuron::numerics
#endif
