// SPDX-License-Identifier: Apache-2.0
// What the kernels on rows and the MLP should compute, in double precision, and how far from it a
// correct device can be; as reference.h, whose units and rules hold here.
// Callers: tests. Thread-safe: no state.
#ifndef TESTS_DIFFERENTIAL_REFERENCE_ROWS_H
#define TESTS_DIFFERENTIAL_REFERENCE_ROWS_H

#include "tests/differential/reference.h"

namespace neuron::differential {

// Documented errors of the device's functions, as relative ones: one unit in the last place is at
// most 2 u.
constexpr double kRsqrtError = 2 * 1.5 * kUnit32;
constexpr double kGeluError = 2 * 4.5 * kUnit32;
constexpr double kGeluSlope = 1.13;  // Greatest slope of gelu

// The slack for products of errors, which are not written out.
constexpr double kSecondOrder = 1 + 1e-3;

inline double gelu_of(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Of a value that is known up to an error.
inline Bounded gelu(const Bounded& x) {
  const double value = gelu_of(x.value);
  return {value,
          (kGeluSlope * x.error + std::fabs(value) * kGeluError) * kSecondOrder + kSmallest32 * 2};
}

inline std::vector<Bounded> gelu(const std::vector<float>& x) {
  std::vector<Bounded> y;
  for (float value : x) y.push_back(gelu(Bounded{value, 0}));
  return y;
}

// Mean and variance come from any order of n additions, and the variance, at worst, from the
// difference of the mean square and the squared mean. (x - mean) * weight * factor + bias rounds
// once a step.
inline std::vector<Bounded> layer_norm(const std::vector<float>& x,
                                       const std::vector<float>& weight,
                                       const std::vector<float>& bias, double epsilon) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, magnitude = 0, square = 0, variance = 0;
  for (double v : x) {
    mean += v / n;
    magnitude += std::fabs(v) / n;
    square += v * v / n;
  }
  for (double v : x) variance += (v - mean) * (v - mean) / n;
  const double mean_error = gamma(n + 2) * magnitude;
  const double variance_error = gamma(n + 4) * square + 2 * std::fabs(mean) * mean_error;
  const double factor = 1 / std::sqrt(variance + epsilon);
  const double factor_error = variance_error / (variance + epsilon) / 2 + kUnit32 + kRsqrtError;
  std::vector<Bounded> y;
  for (size_t i = 0; i < x.size(); ++i) {
    const double centred = x[i] - mean;
    const double product = centred * weight[i] * factor;
    const double value = product + bias[i];
    const double error =
        factor * std::fabs(weight[i]) * (mean_error + kUnit32 * std::fabs(centred)) +
        std::fabs(product) * (factor_error + 2 * kUnit32) + std::fabs(value) * kUnit32;
    y.push_back({value, error * kSecondOrder + kSmallest32});
  }
  return y;
}

// n squares, n - 1 additions, the share 1/n and epsilon round once each; all terms are positive, so
// the errors are relative.
inline std::vector<Bounded> rms_norm(const std::vector<float>& x, const std::vector<float>& weight,
                                     double epsilon) {
  const auto n = static_cast<double>(x.size());
  double square = 0;
  for (double v : x) square += v * v / n;
  const double factor = 1 / std::sqrt(square + epsilon);
  const double relative = gamma(n + 4) / 2 + kRsqrtError + 2 * kUnit32;
  std::vector<Bounded> y;
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = x[i] * factor * weight[i];
    y.push_back({value, std::fabs(value) * relative * kSecondOrder + kSmallest32});
  }
  return y;
}

// One row of gelu(x w1 + b1) w2 + b2. Hidden units are stored as bf16 if `narrow`; one that is not
// known exactly may be rounded to either neighbour, so its rounding is done at both ends.
inline std::vector<Bounded> gelu_mlp_row(const float* x, const std::vector<float>& w1,
                                         const std::vector<float>& b1, const std::vector<float>& w2,
                                         const std::vector<float>& b2, bool narrow) {
  const size_t hidden = b1.size(), outputs = b2.size(), inputs = w1.size() / hidden;
  const auto product = [](size_t terms) {
    return gamma(17.0 + static_cast<double>((terms + 31) / 32));
  };
  std::vector<Bounded> units;
  for (size_t u = 0; u < hidden; ++u) {
    double sum = 0, magnitude = 0;
    for (size_t c = 0; c < inputs; ++c) {
      const double term = double{x[c]} * w1[c * hidden + u];
      sum += term;
      magnitude += std::fabs(term);
    }
    const double total = sum + b1[u];
    Bounded unit = gelu(Bounded{
        total, product(inputs) * magnitude + kUnit32 * std::fabs(total) + kSmallest32 * 128});
    if (narrow) {
      const double low = to_bf16(unit.value - unit.error), high = to_bf16(unit.value + unit.error);
      unit = {(low + high) / 2, (high - low) / 2 + kSmallest32};
    }
    units.push_back(unit);
  }
  std::vector<Bounded> y;
  for (size_t o = 0; o < outputs; ++o) {
    double sum = 0, magnitude = 0, error = 0;
    for (size_t u = 0; u < hidden; ++u) {
      const double weight = w2[u * outputs + o];
      sum += weight * units[u].value;
      magnitude += std::fabs(weight) * (std::fabs(units[u].value) + units[u].error);
      error += std::fabs(weight) * units[u].error;
    }
    const double total = sum + b2[o];
    y.push_back(
        {total, (error + product(hidden) * magnitude + kUnit32 * std::fabs(total)) * kSecondOrder +
                    kSmallest32 * 512});
  }
  return y;
}

}  // namespace neuron::differential

#endif
