// SPDX-License-Identifier: Apache-2.0
// What the kernels on sequences and images should compute, in double precision, and how far from it
// a correct device can be; as reference.h, whose units and rules hold here.
// Callers: tests. Thread-safe: no state.
#ifndef TESTS_DIFFERENTIAL_REFERENCE_SEQUENCES_H
#define TESTS_DIFFERENTIAL_REFERENCE_SEQUENCES_H

#include "tests/differential/reference_rows.h"

namespace neuron::differential {

constexpr double kExpError = 2 * kUnit32;  // One unit in the last place

// The longest path of a product of the PE to its sum over `terms`, as in matmul_row.
inline double product_roundings(size_t terms) {
  return 17.0 + static_cast<double>((terms + 31) / 32);
}

// One addition for each element.
inline std::vector<Bounded> cumulative_sum(const float* x, size_t count) {
  std::vector<Bounded> y;
  double sum = 0, magnitude = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += x[i];
    magnitude += std::fabs(x[i]);
    y.push_back({sum, gamma(static_cast<double>(i + 1)) * magnitude + kSmallest32});
  }
  return y;
}

// a c - b s: two products and a difference.
inline Bounded turned(double a, double c, double b, double s) {
  const double first = a * c, second = b * s;
  return {first - second, gamma(2) * (std::fabs(first) + std::fabs(second)) + 2 * kSmallest32};
}

// One query q [size] against `keys` keys of k [size, positions] and v [positions, size], in steps
// of `block` keys. The argument of exp is off by the error of the scores, by the roundings of the
// scale, of both products with it and of their difference. With each block, a weight and the total
// may be multiplied by one more exponential and added once; the total adds all weights in any
// order. Weights are bf16 for the product if `narrow`.
struct AttentionReference {
  size_t size = 0, positions = 0, block = 0;
  bool narrow = false;

  std::vector<Bounded> row(const float* q, size_t q_step, const float* k, const float* v,
                           size_t keys) const {
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    std::vector<double> scores(keys);
    double input = 0, largest = 0, greatest = -INFINITY, least = INFINITY;
    for (size_t j = 0; j < keys; ++j) {
      double sum = 0, magnitude = 0;
      for (size_t c = 0; c < size; ++c) {
        const double product = double{q[c * q_step]} * k[c * positions + j];
        sum += product;
        magnitude += std::fabs(product);
      }
      scores[j] = scale * sum;
      input = std::max(input, scale * gamma(product_roundings(size)) * magnitude);
      largest = std::max(largest, std::fabs(scores[j]));
      greatest = std::max(greatest, scores[j]);
      least = std::min(least, scores[j]);
    }
    const double blocks = static_cast<double>((keys + block - 1) / block);
    const double argument = 2 * input + kUnit32 * (4 * largest + (greatest - least));
    const double exponential = blocks * (std::expm1(argument) + kExpError);
    const double above =
        exponential + gamma(product_roundings(keys) + 3 * blocks) + (narrow ? kUnit16 : 0.0);
    const double below = exponential + gamma(static_cast<double>(keys) + 3 * blocks);
    std::vector<double> sums(size), magnitudes(size);
    double total = 0, most = 0;
    for (size_t j = 0; j < keys; ++j) {
      const double weight = std::exp(scores[j] - greatest);
      total += weight;
      for (size_t c = 0; c < size; ++c) {
        const double value = v[j * size + c];
        sums[c] += weight * value;
        magnitudes[c] += weight * std::fabs(value);
        most = std::max(most, std::fabs(value));
      }
    }
    std::vector<Bounded> y;
    for (size_t c = 0; c < size; ++c) {
      const double value = sums[c] / total;
      const double error = magnitudes[c] / total * above + std::fabs(value) * (below + gamma(3));
      y.push_back(
          {value, error * kSecondOrder + static_cast<double>(keys) * (1 + most) * kSmallest32});
    }
    return y;
  }
};

// Positions p, p + 128 ... of a head behind each other.
inline std::vector<float> packed_rows(const std::vector<float>& v, size_t heads, size_t sequence,
                                      size_t size) {
  std::vector<float> packed;
  for (size_t head = 0; head < heads; ++head) {
    for (size_t first = 0; first < 128; ++first) {
      for (size_t row = first; row < sequence; row += 128) {
        const auto from = v.begin() + static_cast<ptrdiff_t>((head * sequence + row) * size);
        packed.insert(packed.end(), from, from + static_cast<ptrdiff_t>(size));
      }
    }
  }
  return packed;
}

// One channel of the selective scan; its rows of delta, u and a, and b and c [states, positions].
// The error runs along with the state: the decay is off by the rounding of its argument and by
// exp's own error, the increment rounds twice, product and sum of the scan once each. Then y rounds
// once for each product and once for each sum.
inline std::vector<Bounded> mamba_channel(const float* delta, const float* u, const float* a,
                                          const std::vector<float>& b, const std::vector<float>& c,
                                          size_t positions, size_t states) {
  std::vector<double> values(positions), errors(positions), magnitudes(positions);
  for (size_t n = 0; n < states; ++n) {
    double state = 0, error = 0;
    for (size_t t = 0; t < positions; ++t) {
      const double argument = double{delta[t]} * a[n], decay = std::exp(argument);
      const double relative = std::expm1(kUnit32 * std::fabs(argument)) + kExpError;
      const double increment = double{delta[t]} * u[t] * b[n * positions + t];
      const double kept = decay * state;
      error = decay * (1 + relative) * error + std::fabs(kept) * (relative + kUnit32) +
              gamma(2) * std::fabs(increment);
      state = kept + increment;
      error = (error + kUnit32 * (std::fabs(state) + error)) * (1 + 1e-9) + 4 * kSmallest32;
      const double weight = c[n * positions + t], share = weight * state;
      values[t] += share;
      errors[t] += std::fabs(weight) * error;
      magnitudes[t] += std::fabs(share);
    }
  }
  std::vector<Bounded> y;
  for (size_t t = 0; t < positions; ++t) {
    const double roundings = gamma(static_cast<double>(states) + 1) * magnitudes[t];
    y.push_back({values[t], (errors[t] + roundings) * kSecondOrder +
                                static_cast<double>(states) * kSmallest32});
  }
  return y;
}

// The greatest of a window of the convolution of x [inputs, height, width] with filter [k, k,
// inputs, outputs] for one output channel, plus its bias, for all windows. A greatest value is no
// further off than the worst of its window.
struct ConvolutionReference {
  size_t inputs = 0, outputs = 0, height = 0, width = 0, filter = 0, window = 0;

  Bounded sum(const float* x, const std::vector<float>& weights, size_t output, size_t row,
              size_t column) const {
    double total = 0, magnitude = 0;
    for (size_t place = 0; place < filter * filter; ++place) {
      for (size_t i = 0; i < inputs; ++i) {
        const double product =
            double{x[(i * height + row + place / filter) * width + column + place % filter]} *
            weights[(place * inputs + i) * outputs + output];
        total += product;
        magnitude += std::fabs(product);
      }
    }
    const size_t terms = filter * filter * ((inputs + 31) / 32 * 32);
    return {total, gamma(product_roundings(terms)) * magnitude + 1e3 * kSmallest32};
  }
  std::vector<Bounded> channel(const float* x, const std::vector<float>& weights, double bias,
                               size_t output) const {
    const size_t high = (height - filter + 1) / window, wide = (width - filter + 1) / window;
    std::vector<Bounded> y;
    for (size_t at = 0; at < high * wide; ++at) {
      Bounded greatest{-INFINITY, 0};
      for (size_t k = 0; k < window * window; ++k) {
        const Bounded one = sum(x, weights, output, at / wide * window + k / window,
                                at % wide * window + k % window);
        greatest = {std::max(greatest.value, one.value), std::max(greatest.error, one.error)};
      }
      const double value = greatest.value + bias;
      y.push_back(
          {value, greatest.error + kUnit32 * (std::fabs(value) + greatest.error) + kSmallest32});
    }
    return y;
  }
};

}  // namespace neuron::differential

#endif
