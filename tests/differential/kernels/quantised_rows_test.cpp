// SPDX-License-Identifier: Apache-2.0
// RMS norm with codes of 8 bits, and the router of a mixture of experts, against their mathematics
// in double.
#include <gmock/gmock.h>

#include <set>

#include "tests/differential/kernels/bound.h"
#include "tests/differential/reference_sequences.h"

namespace neuron::differential {
namespace {

using ::testing::HasSubstr;

// f8 of 4 exponent and 3 mantissa bits, bias 7; finite ones.
double of_e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x80) != 0 ? -value : value;
}

struct Row {
  std::vector<double> values;
  double scale = 0;
};
Row row_of(const Bytes& y, size_t columns, size_t row) {
  const uint8_t* first = y.data() + row * (columns + 4);
  Row found;
  for (size_t c = 0; c < columns; ++c) found.values.push_back(of_e4m3(first[c]));
  float scale;
  std::memcpy(&scale, first + columns, sizeof scale);
  found.scale = scale;
  return found;
}

// The scale is the greatest magnitude, which is off as the norm is, divided by 240: two roundings
// more. A code is the quotient of a normed number and the scale, off by both and by two roundings,
// and rounded to the neighbours of 8 bits, at most half a step of 2^-3 of it, or of 2^-9.
void expect_row(const Row& got, const std::vector<Bounded>& normed) {
  double greatest = 0, off = 0;
  for (const Bounded& v : normed) {
    greatest = std::max(greatest, std::fabs(v.value));
    off = std::max(off, v.error);
  }
  const double scale = std::max<double>(greatest, kernels::kQuantSmallest) / 240;
  EXPECT_NEAR(got.scale, scale, (off / 240 + 2 * kUnit32 * scale) * kSecondOrder);
  std::vector<float> results;
  std::vector<Bounded> wanted;
  for (size_t c = 0; c < normed.size(); ++c) {
    results.push_back(static_cast<float>(got.values[c] * got.scale));
    const double value = normed[c].value;
    const double before = normed[c].error + std::fabs(value) * (off / greatest + 5 * kUnit32);
    const double step = std::max(std::fabs(value) * 0x1p-4, scale * 0x1p-10);
    wanted.push_back({value, (before + step) * (1 + 0x1p-3)});
  }
  expect_within(results, wanted);
}

Outcome check_norm(uint8_t dtype, size_t rows, size_t columns, unsigned generation,
                   const Golden& golden) {
  const std::vector<float> x = random_values(dtype, 111, rows * columns, 3);
  const std::vector<float> weight = random_values(dtype, 112, columns, 2);
  const Outcome outcome = outcome_of(
      kernels::rms_norm_quant("rms_norm_quant", dtype, rows, columns,
                              static_cast<uint8_t>(generation)),
      generation, {{"x", bytes_of(dtype, x)}, {"weight", bytes_of(dtype, weight)}}, {"y"});
  if (outcome.outputs.empty()) return outcome;
  for (size_t row = 0; row < rows; row += 3) {
    const auto first = x.begin() + static_cast<ptrdiff_t>(row * columns);
    expect_row(
        row_of(outcome.outputs.at("y"), columns, row),
        rms_norm({first, first + static_cast<ptrdiff_t>(columns)}, weight, kernels::kNormEpsilon));
  }
  expect_golden(outcome, golden);
  return outcome;
}

TEST(RmsNormQuant, OnTrn2IsTheNormWithinHalfAStepOfItsCodes) {
  const Outcome outcome = check_norm(kBf16, 512, 2048, 3, {0x8ae6a6c9bafb60adu, 31095594});
  // Activation squares each element; DVE multiplies it and compares it.
  const double elements = 512 * 2048 / 128.0 * 128;
  expect_share_of_bound(
      outcome, {.vector = 2 * elements, .scalar = elements, .bytes = 3 * elements}, 3, 0.2);
}
TEST(RmsNormQuant, OfF32WithPartialTilesOnTrn3IsTheNormToo) {
  check_norm(kF32, 300, 1000, 4, {0x958a4839f6e812beu, 16516314});
}
TEST(RmsNormQuant, SaysWhatItTakes) {
  const auto older = kernels::rms_norm_quant("odd", kBf16, 128, 128, 2);
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().sentence, HasSubstr("generations 3 and later (trn2, trn3)"));
  const auto odd = kernels::rms_norm_quant("odd", kBf16, 128, 130);
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().sentence, HasSubstr("a multiple of 4"));
}

// The logits of a token, from x_t [inputs, tokens] and w [inputs, experts].
std::vector<Bounded> logits_of(const std::vector<float>& x_t, const std::vector<float>& w,
                               const kernels::RouterShape& shape, size_t token) {
  return matmul_row(x_t, w, shape.tokens, shape.inputs, shape.experts, token);
}

// An expert may take a place if its logit can be what the exact order has there. An exponential is
// off as its argument is, by its rounding and by exp's own error; their sum has a rounding for each
// term, the reciprocal and the product one each.
void expect_choice(const std::vector<Bounded>& logits, const uint32_t* experts,
                   const float* weights, const kernels::RouterShape& shape) {
  std::vector<double> sorted;
  double off = 0;
  for (const Bounded& v : logits) {
    sorted.push_back(v.value);
    off = std::max(off, v.error);
  }
  std::sort(sorted.rbegin(), sorted.rend());
  const size_t summed = shape.normalised ? shape.chosen : shape.experts;
  double total = 0, spread = sorted[0] - sorted[summed - 1];
  for (size_t i = 0; i < summed; ++i) total += std::exp(sorted[i] - sorted[0]);
  const double relative = 2 * (std::expm1(2 * off + (spread + 1) * kUnit32) + kExpError) +
                          gamma(static_cast<double>(summed) + 2) +
                          (shape.normalised ? 0 : 2 * kUnit32);
  std::set<uint32_t> different;
  std::vector<float> got(weights, weights + shape.chosen);
  std::vector<Bounded> wanted;
  for (size_t place = 0; place < shape.chosen; ++place) {
    ASSERT_LT(experts[place], shape.experts);
    different.insert(experts[place]);
    ASSERT_NEAR(logits[experts[place]].value, sorted[place], 2 * off) << "place " << place;
    const double value = std::exp(sorted[place] - sorted[0]) / total;
    wanted.push_back({value, value * (relative + std::expm1(2 * off)) * kSecondOrder});
  }
  EXPECT_EQ(different.size(), shape.chosen);
  expect_within(got, wanted);
}

Outcome check_router(uint8_t dtype, const kernels::RouterShape& shape, unsigned generation,
                     const Golden& golden) {
  const auto x_t = random_values(dtype, 113, shape.inputs * shape.tokens);
  const auto w = random_values(dtype, 114, shape.inputs * shape.experts, 0.5F);
  const Outcome outcome = outcome_of(
      kernels::router_top_k("router_top_k", dtype, shape, static_cast<uint8_t>(generation)),
      generation, {{"x_t", bytes_of(dtype, x_t)}, {"w", bytes_of(dtype, w)}},
      {"weights", "experts"});
  if (outcome.outputs.empty()) return outcome;
  const std::vector<float> weights = outcome.floats_of("weights", kF32);
  std::vector<uint32_t> experts(weights.size());
  std::memcpy(experts.data(), outcome.outputs.at("experts").data(), experts.size() * 4);
  for (size_t token = 0; token < shape.tokens; token += 5) {
    expect_choice(logits_of(x_t, w, shape, token), experts.data() + token * shape.chosen,
                  weights.data() + token * shape.chosen, shape);
  }
  expect_golden(outcome, golden);
  return outcome;
}

TEST(RouterTopK, OnTrn1ChoosesTheExpertsOfTheGreatestLogits) {
  const kernels::RouterShape shape{1024, 1024, 128, 8};
  const Outcome outcome = check_router(kBf16, shape, 2, {0xfbea4a82c3578e1eu, 39864870});
  const double bytes = 2.0 * 1024 * (1024 + 128) + 8.0 * 1024 * 8;
  // DVE looks at each logit twice: for the greatest ones, and for where they are.
  expect_share_of_bound(
      outcome, {.products = 1024.0 * 1024 * 128, .vector = 2.0 * 1024 * 128, .bytes = bytes}, 2,
      0.12);
}
TEST(RouterTopK, OnTrn2AndTrn3GivesTheSameBits) {
  const kernels::RouterShape shape{1024, 1024, 128, 8};
  const double bytes = 2.0 * 1024 * (1024 + 128) + 8.0 * 1024 * 8;
  for (const LaterChip& chip : {LaterChip{3, 41436695, 0.12}, LaterChip{4, 40863780, 0.085}}) {
    SCOPED_TRACE("generation " + std::to_string(chip.generation));
    const Outcome outcome =
        check_router(kBf16, shape, chip.generation, {0xfbea4a82c3578e1eu, chip.device_ps});
    expect_share_of_bound(
        outcome, {.products = 1024.0 * 1024 * 128, .vector = 2.0 * 1024 * 128, .bytes = bytes},
        chip.generation, chip.least);
  }
}
TEST(RouterTopK, OfManyExpertsInEightsGivesTheSoftmaxOverAllOfThem) {
  check_router(kF32, {300, 256, 200, 19, false}, 2, {0xea6e386f7d6cb8b8u, 18982016});
}
TEST(RouterTopK, SaysWhatItTakes) {
  const auto odd = kernels::router_top_k("odd", kF32, {128, 128, 4, 2});
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().sentence, HasSubstr("8 to 512 experts"));
}

}  // namespace
}  // namespace neuron::differential
