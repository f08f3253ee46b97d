// SPDX-License-Identifier: Apache-2.0
// Attention with shared keys and with a window, and its gradients, against their mathematics in
// double.
#include <gmock/gmock.h>

#include "tests/differential/kernels/bound.h"
#include "tests/differential/reference_sequences.h"

namespace neuron::differential {
namespace {

using kernels::AttentionShape;
using ::testing::HasSubstr;

uint64_t kv_heads_of(const AttentionShape& shape) {
  return shape.kv_heads == 0 ? shape.heads : shape.kv_heads;
}

struct Inputs {
  Inputs(uint8_t dtype, const AttentionShape& shape)
      : q(random_values(dtype, 121, shape.heads * shape.sequence * shape.head_size, 4)),
        k(random_values(dtype, 122, kv_heads_of(shape) * shape.sequence * shape.head_size, 2)),
        v(random_values(dtype, 123, kv_heads_of(shape) * shape.sequence * shape.head_size, 3)) {}
  Values bytes(uint8_t dtype, const AttentionShape& shape) const {
    const auto rows =
        shape.packed ? packed_rows(v, kv_heads_of(shape), shape.sequence, shape.head_size) : v;
    return {{"q", bytes_of(dtype, q)}, {"k", bytes_of(dtype, k)}, {"v", bytes_of(dtype, rows)}};
  }
  std::vector<float> q, k, v;
};

// The keys that query `row` meets: [first, end).
struct Seen {
  size_t first, end;
};
Seen seen_by(const AttentionShape& shape, size_t row) {
  const size_t end = shape.causal ? row + 1 : shape.sequence;
  return {shape.window != 0 && end > shape.window ? end - shape.window : 0, end};
}

// Blocks that a query's keys lie in: each may shrink the sums once more.
size_t blocks_of(const AttentionShape& shape) { return shape.sequence / shape.block + 2; }

// log of the sum of exponentials: the sum is off as AttentionReference says of its denominator, and
// the greatest score as an exponential's argument is; the logarithm is good to a unit in the last
// place, and its sum with the scaled maximum rounds twice.
Bounded log_sum(const AttentionReference& reference, const float* q, const float* k, size_t keys) {
  const double scale = 1 / std::sqrt(static_cast<double>(reference.size));
  double greatest = -INFINITY, off = 0, largest = 0, least = INFINITY, total = 0;
  std::vector<double> scores(keys);
  for (size_t j = 0; j < keys; ++j) {
    double sum = 0, magnitude = 0;
    for (size_t c = 0; c < reference.size; ++c) {
      const double product = double{q[c * reference.positions]} * k[c * reference.positions + j];
      sum += product;
      magnitude += std::fabs(product);
    }
    scores[j] = scale * sum;
    off = std::max(off, scale * gamma(product_roundings(reference.size)) * magnitude);
    greatest = std::max(greatest, scores[j]);
    least = std::min(least, scores[j]);
    largest = std::max(largest, std::fabs(scores[j]));
  }
  for (double score : scores) total += std::exp(score - greatest);
  const double argument = 2 * off + kUnit32 * (4 * largest + (greatest - least));
  const double blocks = static_cast<double>((keys + reference.block - 1) / reference.block) + 1;
  const double relative =
      blocks * (std::expm1(argument) + kExpError) + gamma(static_cast<double>(keys) + 3 * blocks);
  const double value = greatest + std::log(total);
  return {value,
          (off + relative + kUnit32 * (4 * largest + 4 * std::log(total) + 4)) * kSecondOrder};
}

Outcome check_forward(uint8_t dtype, const AttentionShape& shape, const Golden& golden,
                      unsigned generation = 2) {
  const uint64_t heads = shape.heads, sequence = shape.sequence, size = shape.head_size;
  const Inputs in(dtype, shape);
  std::vector<std::string> outputs = {"y"};
  if (shape.log_sums) outputs.emplace_back("log_sums");
  const Outcome outcome =
      outcome_of(kernels::attention("attention", dtype, shape, static_cast<uint8_t>(generation)),
                 generation, in.bytes(dtype, shape), outputs);
  if (outcome.outputs.empty()) return outcome;
  const std::vector<float> got = outcome.floats_of("y", dtype);
  for (size_t head = 0; head < heads; ++head) {
    const size_t kv = head / (heads / kv_heads_of(shape)) * sequence * size;
    for (size_t row = 0; row < sequence; row += 11) {
      const Seen seen = seen_by(shape, row);
      const AttentionReference reference{
          size, sequence, std::max<size_t>(1, sequence / blocks_of(shape)), dtype == kBf16};
      const float* q = in.q.data() + head * sequence * size + row;
      const float* k = in.k.data() + kv + seen.first;
      const auto first = got.begin() + static_cast<ptrdiff_t>((head * sequence + row) * size);
      expect_within(
          {first, first + static_cast<ptrdiff_t>(size)},
          stored_as(dtype, reference.row(q, sequence, k, in.v.data() + kv + seen.first * size,
                                         seen.end - seen.first)));
      if (!shape.log_sums) continue;
      expect_within({outcome.floats_of("log_sums", kF32)[head * sequence + row]},
                    {log_sum(reference, q, k, seen.end - seen.first)});
    }
  }
  expect_golden(outcome, golden);
  return outcome;
}

// Two products of each query and key that meet.
double products_of(const AttentionShape& shape) {
  double pairs = 0;
  for (size_t row = 0; row < shape.sequence; ++row) {
    const Seen seen = seen_by(shape, row);
    pairs += static_cast<double>(seen.end - seen.first);
  }
  return pairs * static_cast<double>(shape.heads * shape.head_size);
}

constexpr AttentionShape kGrouped{
    .heads = 4, .sequence = 1024, .head_size = 128, .causal = true, .packed = true, .kv_heads = 2};
TEST(GroupedAttention, OnTrn1SharesKeysBetweenNeighbouringHeads) {
  const Outcome outcome = check_forward(kBf16, kGrouped, {0x6b751c79df672448u, 70925128});
  const double products = products_of(kGrouped);
  // Activation computes an exponential for each pair.
  expect_share_of_bound(outcome, {.products = 2 * products, .scalar = products / 128}, 2, 0.15);
}
TEST(GroupedAttention, OnTrn2AndTrn3GivesTheSameBits) {
  const double products = products_of(kGrouped);
  for (const LaterChip& chip : {LaterChip{3, 83648568, 0.15}, LaterChip{4, 72847438, 0.17}}) {
    SCOPED_TRACE("generation " + std::to_string(chip.generation));
    const Outcome outcome =
        check_forward(kBf16, kGrouped, {0x6b751c79df672448u, chip.device_ps}, chip.generation);
    expect_share_of_bound(outcome, {.products = 2 * products, .scalar = products / 128},
                          chip.generation, chip.least);
  }
}
TEST(GroupedAttention, OfF32InBlocksTellsTheLogarithmsOfItsSums) {
  check_forward(
      kF32,
      {.heads = 3, .sequence = 384, .head_size = 64, .block = 256, .kv_heads = 1, .log_sums = true},
      {0xb177b9c257ed8e5au, 34170387});
  check_forward(kF32,
                {.heads = 2,
                 .sequence = 384,
                 .head_size = 32,
                 .causal = true,
                 .block = 128,
                 .kv_heads = 1,
                 .log_sums = true},
                {0xe7e5e32990670402u, 23510972});
}
constexpr AttentionShape kWindowed{
    .heads = 2, .sequence = 2048, .head_size = 128, .causal = true, .packed = true, .window = 512};
TEST(WindowedAttention, OnTrn1MeetsOnlyTheLastKeys) {
  const Outcome outcome = check_forward(kBf16, kWindowed, {0x78d83f3f2dec797eu, 76141920});
  const double products = products_of(kWindowed);
  expect_share_of_bound(outcome, {.products = 2 * products, .scalar = products / 128}, 2, 0.12);
}
TEST(WindowedAttention, OnTrn2AndTrn3GivesTheSameBits) {
  const double products = products_of(kWindowed);
  for (const LaterChip& chip : {LaterChip{3, 87836765, 0.12}, LaterChip{4, 76199027, 0.14}}) {
    SCOPED_TRACE("generation " + std::to_string(chip.generation));
    const Outcome outcome =
        check_forward(kBf16, kWindowed, {0x78d83f3f2dec797eu, chip.device_ps}, chip.generation);
    expect_share_of_bound(outcome, {.products = 2 * products, .scalar = products / 128},
                          chip.generation, chip.least);
  }
}
TEST(WindowedAttention, OfF32BeginsInTheMiddleOfABlock) {
  check_forward(
      kF32,
      {.heads = 1, .sequence = 640, .head_size = 64, .causal = true, .block = 256, .window = 128},
      {0x526156d45d62253eu, 19076082});
  check_forward(kF32,
                {.heads = 2,
                 .sequence = 512,
                 .head_size = 64,
                 .causal = true,
                 .block = 256,
                 .packed = true,
                 .kv_heads = 1,
                 .window = 256,
                 .log_sums = true},
                {0x5ca8223f18f9fee6u, 23211227});
}
TEST(WindowedAttention, SaysWhatItTakes) {
  const auto loose = kernels::attention(
      "odd", kF32, {.heads = 1, .sequence = 256, .head_size = 64, .window = 128});
  ASSERT_FALSE(loose);
  EXPECT_THAT(loose.error().sentence, HasSubstr("a multiple of 128 and causal"));
  const auto uneven = kernels::attention(
      "odd", kF32, {.heads = 3, .sequence = 256, .head_size = 64, .kv_heads = 2});
  ASSERT_FALSE(uneven);
  EXPECT_THAT(uneven.error().sentence, HasSubstr("a number of heads that the keys' divides"));
}

// The gradients with their errors, one head of keys with the heads that share it.
//
// A score rounds as a product over the head's size; the argument of exp rounds with its product and
// its difference, and exp by its own error. P and dS are stored in the kernel's type. A sum over
// queries or keys is a product of PE, which is off by the errors of its factors and its roundings;
// dk and dv add one addition for each tile of queries, dq one for each block of keys.
class BackwardReference {
 public:
  BackwardReference(const AttentionShape& shape, bool narrow)
      : size_(shape.head_size),
        sequence_(shape.sequence),
        causal_(shape.causal),
        window_(shape.window),
        unit_(narrow ? kUnit16 : 0),
        dk_(size_ * sequence_),
        dv_(size_ * sequence_),
        dq_(size_ * sequence_),
        dk_magnitude_(dk_.size()),
        dv_magnitude_(dk_.size()),
        dq_magnitude_(dk_.size()) {}

  // A head of q; its dq is then ready, the others when all heads have been added.
  void add(const float* q, const float* k, const float* v, const float* y, const float* dy,
           const float* log_sums) {
    std::fill(dq_.begin(), dq_.end(), Bounded{});
    std::fill(dq_magnitude_.begin(), dq_magnitude_.end(), 0.0);
    for (size_t i = 0; i < sequence_; ++i) {
      double dot = 0, dot_magnitude = 0;
      for (size_t c = 0; c < size_; ++c) {
        const double product = double{y[i * size_ + c]} * dy[i * size_ + c];
        dot += product;
        dot_magnitude += std::fabs(product);
      }
      const Bounded sum{dot, gamma(static_cast<double>(size_) + 1) * dot_magnitude};
      const size_t end = causal_ ? i + 1 : sequence_;
      for (size_t j = window_ != 0 && end > window_ ? end - window_ : 0; j < end; ++j) {
        meet(q + i, k + j, v + j * size_, dy + i * size_, sum, log_sums[i], i, j);
      }
    }
    ++heads_;
  }
  std::vector<Bounded> dq() const { return scaled(dq_, dq_magnitude_, 1); }
  std::vector<Bounded> dk() const { return scaled(dk_, dk_magnitude_, heads_); }
  std::vector<Bounded> dv() const { return finished(dv_, dv_magnitude_, heads_); }

 private:
  static void add_product(Bounded& sum, double& magnitude, const Bounded& weight, double by) {
    sum.value += weight.value * by;
    sum.error += weight.error * std::fabs(by);
    magnitude += (std::fabs(weight.value) + weight.error) * std::fabs(by);
  }
  Bounded stored(const Bounded& x) const {
    return {x.value, x.error * (1 + unit_) + std::fabs(x.value) * unit_ + kSmallest32};
  }
  // q and k have a step of `sequence_`; dk and dq lie as they do.
  void meet(const float* q, const float* k, const float* v, const float* dy, const Bounded& dot,
            double log_sum, size_t i, size_t j) {
    const double scale = 1 / std::sqrt(static_cast<double>(size_));
    double score = 0, score_magnitude = 0, error = 0, error_magnitude = 0;
    for (size_t c = 0; c < size_; ++c) {
      const double product = double{q[c * sequence_]} * k[c * sequence_];
      score += product;
      score_magnitude += std::fabs(product);
      const double back = double{dy[c]} * v[c];
      error += back;
      error_magnitude += std::fabs(back);
    }
    const double roundings = gamma(product_roundings(size_));
    const double argument = scale * score - log_sum;
    const double argument_error =
        scale * roundings * score_magnitude +
        kUnit32 * (3 * std::fabs(scale * score) + 2 * std::fabs(log_sum) + std::fabs(argument));
    const double exact = std::exp(argument);
    const Bounded weight = stored({exact, exact * (std::expm1(argument_error) + kExpError)});
    const double difference = error - dot.value;
    const double difference_error =
        (roundings * error_magnitude + dot.error + kUnit32 * std::fabs(difference)) * kSecondOrder;
    const Bounded gradient = stored(
        {weight.value * difference, (weight.error * (std::fabs(difference) + difference_error) +
                                     std::fabs(weight.value) * difference_error +
                                     kUnit32 * std::fabs(weight.value * difference)) *
                                        kSecondOrder});
    for (size_t c = 0; c < size_; ++c) {
      add_product(dv_[j * size_ + c], dv_magnitude_[j * size_ + c], weight, dy[c]);
      add_product(dk_[c * sequence_ + j], dk_magnitude_[c * sequence_ + j], gradient,
                  q[c * sequence_]);
      add_product(dq_[c * sequence_ + i], dq_magnitude_[c * sequence_ + i], gradient,
                  k[c * sequence_]);
    }
  }
  std::vector<Bounded> finished(std::vector<Bounded> sums, const std::vector<double>& magnitudes,
                                double heads) const {
    const double roundings = 17 + 5 * heads * static_cast<double>(sequence_) / 128;
    for (size_t n = 0; n < sums.size(); ++n) {
      sums[n].error = (sums[n].error + gamma(roundings) * magnitudes[n]) * kSecondOrder +
                      static_cast<double>(sequence_) * heads * kSmallest32;
    }
    return sums;
  }
  std::vector<Bounded> scaled(const std::vector<Bounded>& sums,
                              const std::vector<double>& magnitudes, double heads) const {
    const double scale = 1 / std::sqrt(static_cast<double>(size_));
    std::vector<Bounded> found = finished(sums, magnitudes, heads);
    for (Bounded& v : found) {
      v = {v.value * scale, v.error * scale + 2 * kUnit32 * std::fabs(v.value) * scale};
    }
    return found;
  }

  size_t size_, sequence_;
  bool causal_;
  size_t window_;
  double unit_;
  double heads_ = 0;
  std::vector<Bounded> dk_, dv_, dq_;
  std::vector<double> dk_magnitude_, dv_magnitude_, dq_magnitude_;
};

// y and the logarithms of the sums, as the forward pass gives them.
struct Forward {
  std::vector<float> y, log_sums;
};
Forward forward_of(const AttentionShape& shape, const Inputs& in) {
  const uint64_t sequence = shape.sequence, size = shape.head_size;
  Forward made;
  for (size_t head = 0; head < shape.heads; ++head) {
    const size_t kv = head / (shape.heads / kv_heads_of(shape)) * sequence * size;
    for (size_t row = 0; row < sequence; ++row) {
      const Seen seen = seen_by(shape, row);
      std::vector<double> weights(seen.end), sums(size);
      double total = 0;
      for (size_t j = seen.first; j < seen.end; ++j) {
        double score = 0;
        for (size_t c = 0; c < size; ++c) {
          score += double{in.q[head * sequence * size + c * sequence + row]} *
                   in.k[kv + c * sequence + j];
        }
        weights[j] = std::exp(score / std::sqrt(static_cast<double>(size)));
        total += weights[j];
      }
      for (size_t j = seen.first; j < seen.end; ++j) {
        for (size_t c = 0; c < size; ++c) sums[c] += weights[j] / total * in.v[kv + j * size + c];
      }
      for (double sum : sums) made.y.push_back(static_cast<float>(sum));
      made.log_sums.push_back(static_cast<float>(std::log(total)));
    }
  }
  return made;
}

void expect_part(const std::vector<float>& got, size_t first, uint8_t dtype,
                 const std::vector<Bounded>& wanted) {
  const auto begin = got.begin() + static_cast<ptrdiff_t>(first);
  expect_within({begin, begin + static_cast<ptrdiff_t>(wanted.size())}, stored_as(dtype, wanted));
}

Outcome check_backward(uint8_t dtype, const AttentionShape& shape, const Golden& golden,
                       unsigned generation = 2) {
  const uint64_t kv_heads = kv_heads_of(shape), part = shape.sequence * shape.head_size;
  const Inputs in(dtype, shape);
  Forward forward = forward_of(shape, in);
  if (dtype == kBf16) {
    for (float& value : forward.y) value = static_cast<float>(to_bf16(value));
  }
  const std::vector<float> dy = random_values(dtype, 124, forward.y.size(), 2);
  Values inputs = in.bytes(dtype, shape);
  inputs["y"] = bytes_of(dtype, forward.y);
  inputs["dy"] = bytes_of(dtype, dy);
  inputs["log_sums"] = bytes_of(kF32, forward.log_sums);
  const Outcome outcome = outcome_of(kernels::attention_backward("attention_backward", dtype, shape,
                                                                 static_cast<uint8_t>(generation)),
                                     generation, inputs, {"dq", "dk", "dv"});
  expect_golden(outcome, golden);
  // The bits of later chips are those of trn1, which the reference has seen.
  if (outcome.outputs.empty() || generation != 2) return outcome;
  const auto dq = outcome.floats_of("dq", dtype), dk = outcome.floats_of("dk", dtype);
  const auto dv = outcome.floats_of("dv", dtype);
  for (size_t kv = 0; kv < kv_heads; ++kv) {
    BackwardReference reference(shape, dtype == kBf16);
    for (size_t h = 0; h < shape.heads / kv_heads; ++h) {
      const size_t head = kv * (shape.heads / kv_heads) + h;
      reference.add(in.q.data() + head * part, in.k.data() + kv * part, in.v.data() + kv * part,
                    forward.y.data() + head * part, dy.data() + head * part,
                    forward.log_sums.data() + head * shape.sequence);
      expect_part(dq, head * part, dtype, reference.dq());
    }
    expect_part(dk, kv * part, dtype, reference.dk());
    expect_part(dv, kv * part, dtype, reference.dv());
  }
  return outcome;
}

TEST(AttentionBackward, OnTrn1GivesTheGradientsOfSharedKeys) {
  const AttentionShape shape{
      .heads = 2, .sequence = 1024, .head_size = 128, .causal = true, .kv_heads = 1};
  const Outcome outcome = check_backward(kBf16, shape, {0x35d768fd673165fcu, 77877482});
  // Scores, dP, dv, dk and dq.
  const double products = products_of(shape);
  expect_share_of_bound(outcome, {.products = 5 * products, .scalar = products / 128}, 2, 0.17);
}
TEST(AttentionBackward, OnTrn2AndTrn3GivesTheSameBits) {
  const AttentionShape shape{
      .heads = 2, .sequence = 1024, .head_size = 128, .causal = true, .kv_heads = 1};
  const double products = products_of(shape);
  for (const LaterChip& chip : {LaterChip{3, 84211520, 0.18}, LaterChip{4, 74449392, 0.2}}) {
    SCOPED_TRACE("generation " + std::to_string(chip.generation));
    const Outcome outcome =
        check_backward(kBf16, shape, {0x35d768fd673165fcu, chip.device_ps}, chip.generation);
    expect_share_of_bound(outcome, {.products = 5 * products, .scalar = products / 128},
                          chip.generation, chip.least);
  }
}
TEST(AttentionBackward, WithAWindowGivesTheGradientsOfTheKeysInIt) {
  const AttentionShape shape{
      .heads = 2, .sequence = 1280, .head_size = 128, .causal = true, .kv_heads = 1, .window = 384};
  const double products = products_of(shape);
  for (const LaterChip& chip :
       {LaterChip{2, 85887040, 0.12}, LaterChip{3, 91023126, 0.13}, LaterChip{4, 81874718, 0.15}}) {
    SCOPED_TRACE("generation " + std::to_string(chip.generation));
    const Outcome outcome =
        check_backward(kBf16, shape, {0x2dd5d7b0802dbd70u, chip.device_ps}, chip.generation);
    expect_share_of_bound(outcome, {.products = 5 * products, .scalar = products / 128},
                          chip.generation, chip.least);
  }
}
TEST(AttentionBackward, OfF32WithWindowsOfASquareOfABlockAndOfAllKeysGivesTheGradients) {
  const auto shape = [](uint64_t window) {
    return AttentionShape{
        .heads = 1, .sequence = 768, .head_size = 64, .causal = true, .window = window};
  };
  check_backward(kF32, shape(128), {0x8bf996d77faedc73u, 34074884});
  check_backward(kF32, shape(512), {0x6b5a7eb3a44d72b3u, 42577730});
  check_backward(kF32, shape(768), {0x34aa3464b4b0174fu, 43217729});
}
TEST(AttentionBackward, OfF32WithoutAMaskGivesTheGradients) {
  check_backward(kF32, {.heads = 2, .sequence = 640, .head_size = 64},
                 {0xcc7b8420a7268358u, 82979873});
}
TEST(AttentionBackward, OfF32WithAMaskAndSmallHeadsGivesTheGradients) {
  check_backward(kF32,
                 {.heads = 3, .sequence = 384, .head_size = 32, .causal = true, .kv_heads = 1},
                 {0xfe20e7903aee5c90u, 46293585});
}
TEST(AttentionBackward, SaysWhatItTakes) {
  const auto odd = kernels::attention_backward("odd", kF32, {1, 100, 64});
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().sentence, HasSubstr("a multiple of 128"));
  for (const auto& [window, causal] : {std::pair(128, false), {100, true}}) {
    const auto loose = kernels::attention_backward("loose", kF32,
                                                   {.heads = 1,
                                                    .sequence = 256,
                                                    .head_size = 64,
                                                    .causal = causal,
                                                    .window = static_cast<uint64_t>(window)});
    ASSERT_FALSE(loose);
    EXPECT_THAT(loose.error().sentence, HasSubstr("a multiple of 128 and causal"));
  }
}

}  // namespace
}  // namespace neuron::differential
