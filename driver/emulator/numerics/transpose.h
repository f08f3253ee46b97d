// SPDX-License-Identifier: Apache-2.0
// Transposition of packed 32-bit elements, bits untouched.
//
// Callers: units whose partitions are independent chains along the free dimension (scans) and which
// therefore compute on columns. Plain loads, stores and shuffles: the same on every host.
#ifndef DRIVER_EMULATOR_NUMERICS_TRANSPOSE_H
#define DRIVER_EMULATOR_NUMERICS_TRANSPOSE_H

#include <xmmintrin.h>

#include <cstddef>
#include <cstring>

namespace neuron::numerics {

// out[c * out_stride + r] = in[r * in_stride + c]; strides in floats. in and out do not overlap.
inline void transpose_words(const float* in, size_t in_stride, size_t rows, size_t columns,
                            float* out, size_t out_stride) {
  const size_t whole_rows = rows - rows % 4;
  const size_t whole_columns = columns - columns % 4;
  for (size_t r = 0; r < whole_rows; r += 4) {
    for (size_t c = 0; c < whole_columns; c += 4) {
      const float* from = in + r * in_stride + c;
      __m128 r0 = _mm_loadu_ps(from);
      __m128 r1 = _mm_loadu_ps(from + in_stride);
      __m128 r2 = _mm_loadu_ps(from + 2 * in_stride);
      __m128 r3 = _mm_loadu_ps(from + 3 * in_stride);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      float* to = out + c * out_stride + r;
      _mm_storeu_ps(to, r0);
      _mm_storeu_ps(to + out_stride, r1);
      _mm_storeu_ps(to + 2 * out_stride, r2);
      _mm_storeu_ps(to + 3 * out_stride, r3);
    }
  }
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      std::memcpy(out + c * out_stride + r, in + r * in_stride + c, sizeof(float));
    }
  }
}

}  // namespace neuron::numerics
#endif
