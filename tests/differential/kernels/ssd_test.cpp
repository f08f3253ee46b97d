// SPDX-License-Identifier: Apache-2.0
// Mamba-2's recurrence, which the kernel computes as products of chunks, step by step in double.
#include <gmock/gmock.h>

#include "tests/differential/kernels/bound.h"
#include "tests/differential/reference_sequences.h"

namespace neuron::differential {
namespace {

using kernels::SsdShape;
using ::testing::HasSubstr;

constexpr size_t kChunk = 128;

struct SsdInputs {
  SsdInputs(uint8_t dtype, const SsdShape& s)
      : x(random_values(dtype, 141, s.batch * s.heads * s.sequence * s.head_size, 2)),
        delta(Numbers(142).take(s.batch * s.heads * s.sequence, 0.2F)),
        a(Numbers(143).take(s.heads)),
        b(random_values(dtype, 144, s.batch * s.sequence * s.states)),
        c(random_values(dtype, 145, s.batch * s.sequence * s.states)) {
    for (float& value : delta) value = std::fabs(value);
    for (float& value : a) value = -std::fabs(value);
  }
  Values bytes(uint8_t dtype) const {
    return {{"x", bytes_of(dtype, x)},
            {"delta", bytes_of(kF32, delta)},
            {"a", bytes_of(kF32, a)},
            {"b", bytes_of(dtype, b)},
            {"c", bytes_of(dtype, c)}};
  }
  std::vector<float> x, delta, a, b, c;
};

// One head, and the sums of magnitudes of what y is made of.
//
// Every share of y[i] is c b exp(s) delta x. The kernel rounds each factor: the product c b of PE,
// the exponentials (their arguments are sums of at most 128 terms of PE, off by `roundings` of
// their magnitudes; one exponential for each chunk between the positions, each of which also
// rounds the state), delta x, and what is stored in the kernel's type: u, the weights and the
// carried c and state. Then PE adds. All shares are off relatively, so y is by the sum of their
// magnitudes.
std::vector<Bounded> head_of(const SsdInputs& in, const SsdShape& s, size_t batch, size_t head,
                             bool narrow) {
  const auto [batches, heads, sequence, size, states] = s;
  const float* x = in.x.data() + (batch * heads + head) * sequence * size;
  const float* delta = in.delta.data() + (batch * heads + head) * sequence;
  const double a = in.a[head];
  double chunk_sum = 0;
  for (size_t first = 0; first < sequence; first += kChunk) {
    double sum = 0;
    for (size_t t = first; t < first + kChunk; ++t) sum += std::fabs(delta[t] * a);
    chunk_sum = std::max(chunk_sum, sum);
  }
  const double exponential =
      std::expm1(2 * gamma(product_roundings(kChunk) + 4) * chunk_sum) + kExpError;
  const auto chunks = static_cast<double>(sequence / kChunk);
  const double stored = narrow ? kUnit16 : 0;
  const double relative =
      ((chunks + 1) * (exponential + 3 * kUnit32) + gamma(product_roundings(states)) +
       gamma(product_roundings(kChunk)) * 2 + 6 * kUnit32 + 4 * stored) *
      (1 + 0x1p-5);
  std::vector<double> state(states * size), magnitude(states * size);
  std::vector<Bounded> y;
  for (size_t t = 0; t < sequence; ++t) {
    const double decay = std::exp(delta[t] * a);
    const float* b = in.b.data() + (batch * sequence + t) * states;
    const float* c = in.c.data() + (batch * sequence + t) * states;
    for (size_t d = 0; d < size; ++d) {
      double sum = 0, total = 0;
      for (size_t n = 0; n < states; ++n) {
        const double more = double{delta[t]} * b[n] * x[t * size + d];
        state[n * size + d] = decay * state[n * size + d] + more;
        magnitude[n * size + d] = decay * magnitude[n * size + d] + std::fabs(more);
        sum += c[n] * state[n * size + d];
        total += std::fabs(c[n]) * magnitude[n * size + d];
      }
      y.push_back({sum, total * relative + 1e3 * kSmallest32});
    }
  }
  return y;
}

Outcome check_ssd(uint8_t dtype, const SsdShape& shape, const Golden& golden,
                  unsigned generation = 2) {
  const SsdInputs in(dtype, shape);
  const Outcome outcome =
      outcome_of(kernels::ssd("ssd", dtype, shape, static_cast<uint8_t>(generation)), generation,
                 in.bytes(dtype), {"y"});
  if (outcome.outputs.empty()) return outcome;
  const std::vector<float> got = outcome.floats_of("y", dtype);
  const auto part = static_cast<ptrdiff_t>(shape.sequence * shape.head_size);
  auto first = got.begin();
  for (size_t batch = 0; batch < shape.batch; ++batch) {
    for (size_t head = 0; head < shape.heads; ++head, first += part) {
      expect_within({first, first + part},
                    stored_as(dtype, head_of(in, shape, batch, head, dtype == kBf16)));
    }
  }
  expect_golden(outcome, golden);
  return outcome;
}

TEST(Ssd, OfBf16OnTrn1IsTheRecurrenceOfItsStates) {
  const SsdShape shape{1, 8, 512, 128, 128};
  const Outcome outcome = check_ssd(kBf16, shape, {0x9a73022cff46b54cu, 63220620});
  // c b once for all heads; then its product with x, and those with the states.
  const double places = 512, heads = 8, products = places * 128 * 128 * (1 + 3 * heads);
  const double bytes = 2 * places * (2 * heads * 128 + 2 * 128) + 4 * places * heads;
  expect_share_of_bound(
      outcome,
      {.products = products, .scalar = places * heads * 128 / 128 * 128 / 2, .bytes = bytes}, 2,
      0.08);
}
TEST(Ssd, OnTrn2AndTrn3GivesTheSameBits) {
  const SsdShape shape{1, 8, 512, 128, 128};
  const double places = 512, heads = 8, products = places * 128 * 128 * (1 + 3 * heads);
  const double bytes = 2 * places * (2 * heads * 128 + 2 * 128) + 4 * places * heads;
  for (const LaterChip& chip : {LaterChip{3, 75265639, 0.065}, LaterChip{4, 70192733, 0.065}}) {
    SCOPED_TRACE("generation " + std::to_string(chip.generation));
    const Outcome outcome =
        check_ssd(kBf16, shape, {0x9a73022cff46b54cu, chip.device_ps}, chip.generation);
    expect_share_of_bound(outcome,
                          {.products = products, .scalar = places * heads * 64, .bytes = bytes},
                          chip.generation, chip.least);
  }
}
TEST(Ssd, OfF32StartsEverySequenceAnew) {
  check_ssd(kF32, {2, 3, 384, 64, 16}, {0x3d84cb410bf9875eu, 41511081});
}
TEST(Ssd, SaysWhatItTakes) {
  const auto odd = kernels::ssd("odd", kF32, {1, 1, 100, 64, 16});
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().sentence, HasSubstr("a multiple of 128"));
}

}  // namespace
}  // namespace neuron::differential
