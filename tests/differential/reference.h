// SPDX-License-Identifier: Apache-2.0
// What the kernels should compute, in double precision, and how far from it a correct device can
// be.
//
// Written from the definition of each kernel, with nothing of the emulator. Every bound is derived:
// u is the unit roundoff of fp32, 2^-24; of bf16, 2^-8. A chain of n roundings is off by at most
// n u / (1 - n u) of the sum of magnitudes. Callers: tests. Thread-safe: no state.
#ifndef TESTS_DIFFERENTIAL_REFERENCE_H
#define TESTS_DIFFERENTIAL_REFERENCE_H

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace neuron::differential {

constexpr double kUnit32 = 0x1p-24;
constexpr double kUnit16 = 0x1p-8;
constexpr double kSmallest32 = 0x1p-126;  // Smaller results may be flushed to zero

// A value and how far a correct device's value may be from it.
struct Bounded {
  double value = 0;
  double error = 0;
};

inline double gamma(double roundings) { return roundings * kUnit32 / (1 - roundings * kUnit32); }

// Nearest even, for finite values.
inline double to_bf16(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U;
  return std::bit_cast<float>(rounded);
}

// Row `row` of transpose(a [k, m]) * b [k, n]. The longest path of a product to its sum, in steps
// of 32 of k: 16 fused products in one chain, one sum of the two chains, and one addition to the
// total for each step.
inline std::vector<Bounded> matmul_row(const std::vector<float>& a, const std::vector<float>& b,
                                       size_t m, size_t k, size_t n, size_t row) {
  std::vector<double> sums(n), magnitudes(n);
  for (size_t i = 0; i < k; ++i) {
    const double left = a[i * m + row];
    for (size_t c = 0; c < n; ++c) {
      const double product = left * b[i * n + c];
      sums[c] += product;
      magnitudes[c] += std::fabs(product);
    }
  }
  const double roundings = 17.0 + static_cast<double>((k + 31) / 32);
  std::vector<Bounded> result(n);
  for (size_t c = 0; c < n; ++c) {
    const double flushed = static_cast<double>(k) * kSmallest32;
    result[c] = {sums[c], gamma(roundings) * magnitudes[c] + flushed};
  }
  return result;
}

// A softmax of values that are known up to an error. Subtracting the maximum rounds once, relative
// to the difference; exp is good to one unit in the last place, 2 u; the sum of n positive terms
// adds n - 1 roundings; reciprocal and product one each.
inline std::vector<Bounded> softmax(const std::vector<Bounded>& x) {
  double greatest = -INFINITY, input = 0, spread = 0, sum = 0;
  for (const Bounded& v : x) greatest = std::max(greatest, v.value);
  for (const Bounded& v : x) {
    sum += std::exp(v.value - greatest);
    input = std::max(input, v.error);
    spread = std::max(spread, greatest - v.value);
  }
  // exp turns an absolute error of its argument into a relative one; it counts in the numerator and
  // in the sum. An input error counts twice more, as the maximum may be off as well.
  const double exponent = 4 * input + 2 * (spread + 1) * kUnit32;
  const double roundings = 2 * 2.0 + static_cast<double>(x.size() - 1) + 2;
  const double relative = std::expm1(exponent) * (1 + gamma(roundings)) + gamma(roundings);
  std::vector<Bounded> y;
  for (const Bounded& v : x) {
    const double value = std::exp(v.value - greatest) / sum;
    y.push_back({value, value * relative + 2 * kSmallest32});
  }
  return y;
}

// The result is stored as bf16.
inline Bounded stored_as_bf16(const Bounded& x) {
  return {x.value, x.error * (1 + kUnit16) + std::fabs(x.value) * kUnit16 + kSmallest32};
}

// The digits classifier: x [rows, 64], w1 [64, 128], b1, w2 [128, 10], b2. The device keeps the
// weights and the hidden units in bf16; pixels / 16 are exact in it. A hidden unit that is not
// known exactly may be rounded to either neighbour, so its rounding is done at both ends.
struct DigitsReference {
  std::vector<float> w1, b1, w2, b2;

  std::vector<Bounded> probabilities(const float* pixels) const {
    constexpr size_t kPixels = 64, kUnits = 128, kLabels = 10;
    std::vector<Bounded> hidden;
    for (size_t u = 0; u < kUnits; ++u) {
      double sum = 0, magnitude = 0;
      for (size_t p = 0; p < kPixels; ++p) {
        const double product = to_bf16(w1[p * kUnits + u]) * (pixels[p] / 16.0);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double total = sum + b1[u];
      // The product of 64 terms: 17 + 2 roundings; the bias: one more, of the total.
      const double error = gamma(19) * magnitude + (std::fabs(total) + 1e-30) * kUnit32 * 2;
      const double low = to_bf16(std::max(total - error, 0.0));
      const double high = to_bf16(std::max(total + error, 0.0));
      hidden.push_back({(low + high) / 2, (high - low) / 2});
    }
    std::vector<Bounded> logits;
    for (size_t l = 0; l < kLabels; ++l) {
      double sum = 0, magnitude = 0, error = 0;
      for (size_t u = 0; u < kUnits; ++u) {
        const double weight = to_bf16(w2[u * kLabels + l]);
        sum += weight * hidden[u].value;
        magnitude += std::fabs(weight) * (hidden[u].value + hidden[u].error);
        error += std::fabs(weight) * hidden[u].error;
      }
      const double total = sum + b2[l];
      logits.push_back(
          {total, error + gamma(21) * magnitude + (std::fabs(total) + 1e-30) * kUnit32 * 2});
    }
    return softmax(logits);
  }
};

}  // namespace neuron::differential

#endif
