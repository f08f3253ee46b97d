// SPDX-License-Identifier: Apache-2.0
// A mixture of experts whose weights are fetched by address, against its mathematics in double.
#include <gmock/gmock.h>

#include "tests/differential/kernels/bound.h"
#include "tests/differential/reference_sequences.h"

namespace neuron::differential {
namespace {

using kernels::MoeShape;
using ::testing::HasSubstr;

constexpr double kSiluError = 2 * 2.9 * kUnit32;
constexpr double kSiluSlope = 1.1;  // Greatest slope of silu

struct ExpertInputs {
  std::vector<float> x, gate_up, down, affinities;
  std::vector<uint32_t> tokens, experts;
  std::vector<std::vector<size_t>> experts_of;  // Of each token
};

// Each token has `chosen` experts; places are sorted by expert, and each expert's last block is
// padded. Expert 1 gets no tokens. Blocks that are left are padding of expert 0.
ExpertInputs inputs_of(uint8_t dtype, const MoeShape& shape, size_t chosen) {
  ExpertInputs in;
  in.x = random_values(dtype, 131, shape.tokens * shape.inputs, 2);
  in.gate_up = random_values(dtype, 132, shape.experts * shape.inputs * 2 * shape.hidden, 0.25F);
  in.down = random_values(dtype, 133, shape.experts * shape.hidden * shape.inputs, 0.25F);
  in.affinities.assign(shape.tokens * shape.experts, 0);
  in.experts_of.resize(shape.tokens);
  Numbers numbers(134);
  std::vector<std::vector<uint32_t>> places(shape.experts);
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    for (size_t i = 0; i < chosen; ++i) {
      size_t expert = (token / 3 + i * (1 + token % 2)) % shape.experts;
      if (expert == 1) expert = shape.experts - 1;
      auto& mine = in.experts_of[token];
      if (std::find(mine.begin(), mine.end(), expert) != mine.end()) continue;
      mine.push_back(expert);
      places[expert].push_back(token);
      in.affinities[token * shape.experts + expert] = numbers.next(0.5F) + 0.5F;
    }
  }
  for (uint32_t expert = 0; expert < shape.experts; ++expert) {
    auto& mine = places[expert];
    while (mine.size() % kernels::kMoePlaces != 0) {
      mine.push_back(static_cast<uint32_t>(shape.tokens));
    }
    in.tokens.insert(in.tokens.end(), mine.begin(), mine.end());
    in.experts.insert(in.experts.end(), mine.size() / kernels::kMoePlaces, expert);
  }
  EXPECT_LE(in.experts.size(), shape.blocks);
  in.tokens.resize(shape.blocks * kernels::kMoePlaces, static_cast<uint32_t>(shape.tokens));
  in.experts.resize(shape.blocks, 0);
  return in;
}

Bounded product_of(const float* a, const float* b, size_t step, size_t count) {
  double sum = 0, magnitude = 0;
  for (size_t i = 0; i < count; ++i) {
    const double product = double{a[i]} * b[i * step];
    sum += product;
    magnitude += std::fabs(product);
  }
  return {sum, gamma(product_roundings(count)) * magnitude};
}

// silu(x gate) * (x up) of one unit: silu is off by its slope times its argument's error and by its
// own, the product by one rounding, and it is stored in the kernel's type.
Bounded unit_of(const Bounded& gate, const Bounded& up, uint8_t dtype) {
  const double silu = gate.value / (1 + std::exp(-gate.value));
  const double silu_error = kSiluSlope * gate.error + std::fabs(silu) * kSiluError + kSmallest32;
  const double value = silu * up.value;
  const double error = (std::fabs(silu) + silu_error) * up.error +
                       std::fabs(up.value) * silu_error + kUnit32 * std::fabs(value);
  return stored_as(dtype, {{value, error * kSecondOrder + kSmallest32}})[0];
}

// One token: a product of PE for each of its experts, its affinity, and the sum of the experts.
std::vector<Bounded> token_row(const ExpertInputs& in, const MoeShape& shape, size_t token,
                               uint8_t dtype) {
  const auto [tokens, inputs, hidden, experts, blocks] = shape;
  std::vector<Bounded> y(inputs);
  std::vector<double> sizes(inputs);
  for (size_t expert : in.experts_of[token]) {
    const float* gate_up = in.gate_up.data() + expert * inputs * 2 * hidden;
    std::vector<Bounded> units;
    for (size_t u = 0; u < hidden; ++u) {
      const float* x = in.x.data() + token * inputs;
      units.push_back(unit_of(product_of(x, gate_up + u, 2 * hidden, inputs),
                              product_of(x, gate_up + hidden + u, 2 * hidden, inputs), dtype));
    }
    const double share = in.affinities[token * experts + expert];
    for (size_t c = 0; c < inputs; ++c) {
      double sum = 0, magnitude = 0, error = 0;
      for (size_t u = 0; u < hidden; ++u) {
        const double weight = in.down[(expert * hidden + u) * inputs + c];
        sum += weight * units[u].value;
        magnitude += std::fabs(weight) * (std::fabs(units[u].value) + units[u].error);
        error += std::fabs(weight) * units[u].error;
      }
      y[c].value += share * sum;
      y[c].error += share * (error + gamma(product_roundings(hidden) + 2) * magnitude);
      sizes[c] += share * magnitude;
    }
  }
  for (size_t c = 0; c < inputs; ++c) {
    const auto sums = static_cast<double>(in.experts_of[token].size());
    y[c].error = (y[c].error + gamma(sums) * sizes[c]) * kSecondOrder + kSmallest32 * 512;
  }
  return stored_as(dtype, y);
}

Outcome check_moe(uint8_t dtype, const MoeShape& shape, size_t chosen, bool constants,
                  unsigned generation, const Golden& golden) {
  const ExpertInputs in = inputs_of(dtype, shape, chosen);
  const kernels::MoeWeights weights{bytes_of(dtype, in.gate_up), bytes_of(dtype, in.down)};
  Values inputs = {{"x", bytes_of(dtype, in.x)},
                   {"affinities", bytes_of(kF32, in.affinities)},
                   {"tokens", bytes_of(in.tokens)},
                   {"experts", bytes_of(in.experts)}};
  if (!constants) {
    inputs["gate_up"] = weights.gate_up;
    inputs["down"] = weights.down;
  }
  const Outcome outcome =
      outcome_of(kernels::moe("moe", dtype, shape, constants ? &weights : nullptr,
                              static_cast<uint8_t>(generation)),
                 generation, inputs, {"y"});
  if (outcome.outputs.empty()) return outcome;
  const std::vector<float> got = outcome.floats_of("y", dtype);
  for (size_t token = 0; token < shape.tokens; token += 9) {
    const auto first = got.begin() + static_cast<ptrdiff_t>(token * shape.inputs);
    expect_within({first, first + static_cast<ptrdiff_t>(shape.inputs)},
                  token_row(in, shape, token, dtype));
  }
  expect_golden(outcome, golden);
  return outcome;
}

TEST(Moe, OnTrn1FetchesTheWeightsOfEachBlocksExpert) {
  check_moe(kF32, {200, 128, 256, 4, 6}, 2, false, 2, {0xe6fe6529fb0bf6cau, 46522913});
}
TEST(Moe, OnTrn2WithWeightsInTheFileDropsNoToken) {
  const MoeShape shape{512, 512, 512, 6, 12};
  const Outcome outcome = check_moe(kBf16, shape, 2, true, 3, {0x317eee0a6d2edcb2u, 124818786});
  const double weights = 3.0 * 512 * 512;
  // Of two experts for each token; each expert but the one without tokens is fetched once.
  expect_share_of_bound(
      outcome, {.products = 2 * 512 * weights, .bytes = 2 * (5 * weights + 2.0 * 512 * 512)}, 3,
      0.15);
}
TEST(Moe, OnTrn3GivesTheBitsOfTrn2) {
  const MoeShape shape{512, 512, 512, 6, 12};
  const Outcome outcome = check_moe(kBf16, shape, 2, true, 4, {0x317eee0a6d2edcb2u, 110902184});
  const double weights = 3.0 * 512 * 512;
  expect_share_of_bound(
      outcome, {.products = 2 * 512 * weights, .bytes = 2 * (5 * weights + 2.0 * 512 * 512)}, 4,
      0.16);
}
TEST(Moe, OnTrn2FetchesTheWeightsOfEachBlocksExpert) {
  check_moe(kF32, {200, 128, 256, 4, 6}, 2, false, 3, {0xe6fe6529fb0bf6cau, 49081756});
}
TEST(Moe, OfAnExpertThatDoesNotExistIsAFault) {
  const MoeShape shape{128, 128, 128, 2, 1};
  const Chip chip(2, true);
  DeviceModel model(kernels::moe("moe", kF32, shape), chip.ready());
  ASSERT_TRUE(model.usable());
  const ExpertInputs in = inputs_of(kF32, {128, 128, 128, 2, 2}, 1);
  model.write("x", in.x);
  model.write("gate_up", in.gate_up);
  model.write("down", in.down);
  model.write("affinities", in.affinities);
  model.write("tokens", in.tokens.data(), 512);
  // The first bytes of some of them are 0 in 32 bits.
  for (const uint32_t expert : {2U, 1U << 15, 1U << 16, 1U << 31, UINT32_MAX}) {
    model.write("experts", &expert, sizeof expert);
    EXPECT_NE(model.status_of_execution(), NRT_SUCCESS) << expert;
  }
}
TEST(Moe, SaysWhatItTakes) {
  const auto odd = kernels::moe("odd", kF32, {128, 100, 128, 2, 1});
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().sentence, HasSubstr("multiples of 128"));
}

}  // namespace
}  // namespace neuron::differential
