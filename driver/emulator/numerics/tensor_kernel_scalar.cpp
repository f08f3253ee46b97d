// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/tensor_kernel_scalar.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace neuron::numerics {
namespace {

constexpr float kMinNormal = 0x1p-126f;
constexpr uint32_t kCanonicalNan = 0x7FC00000u;

float flush(float x) { return std::fabs(x) < kMinNormal ? std::copysign(0.0f, x) : x; }

// A result equal to the smallest normal number may be tiny: with an unbounded exponent, the exact
// value hi + lo would have rounded to less.
float flush_at_border(float rounded, double hi, double lo) {
  if (std::fabs(rounded) != kMinNormal) return flush(rounded);
  constexpr double kTinyBelow = 0x1p-126 - 0x1p-151;  // a tie here rounds up to the normal number
  const double sign = rounded < 0 ? -1.0 : 1.0;
  const double distance = sign * hi - kTinyBelow;
  const bool tiny = distance < 0 || (distance == 0 && sign * lo < 0);
  return tiny ? std::copysign(0.0f, rounded) : rounded;
}

// The rounding error of a + b (Knuth), exact in the ranges used here.
double sum_error(double a, double b, double sum) {
  const double b_part = sum - a;
  return (a - (sum - b_part)) + (b - b_part);
}

}  // namespace

float flushed_fma(float a, float b, float c) {
  a = flush(a);
  b = flush(b);
  c = flush(c);
  const float r = std::fma(a, b, c);
  const double product = static_cast<double>(a) * b;  // exact: 48 bits
  const double sum = product + c;
  return flush_at_border(r, sum, sum_error(product, c, sum));
}

float flushed_add(float a, float b) {
  a = flush(a);
  b = flush(b);
  // A sum of two floats is exact wherever it is near the border, so there is no rounding error to
  // examine.
  return flush(a + b);
}

float dot_in_engine_order(const float* a, ptrdiff_t a_stride, const float* b, ptrdiff_t b_stride,
                          int k, float start) {
  float c = start;
  for (int base = 0; base < k; base += 32) {
    float even = 0.0f;
    float odd = 0.0f;
    for (int i = base; i < base + 32; i += 2) {
      even = flushed_fma(a[i * a_stride], b[i * b_stride], even);
      odd = flushed_fma(a[(i + 1) * a_stride], b[(i + 1) * b_stride], odd);
    }
    c = flushed_add(c, flushed_add(even, odd));
  }
  return std::isnan(c) ? std::bit_cast<float>(kCanonicalNan) : c;
}

}  // namespace neuron::numerics
