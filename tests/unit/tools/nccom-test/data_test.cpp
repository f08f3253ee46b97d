// SPDX-License-Identifier: Apache-2.0
// Contents of buffers and what becomes of them, against numbers that do not come from there.
#include "tools/nccom-test/run/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint64_t code_of(ccom_type_t type, double value) {
  uint64_t bits = 0;
  encode(type, value, reinterpret_cast<std::byte*>(&bits));
  return bits;
}
double value_of(ccom_type_t type, uint64_t bits) {
  return decode(type, reinterpret_cast<const std::byte*>(&bits));
}
std::string text_of(ccom_type_t type, uint64_t bits) {
  return shown(type, reinterpret_cast<const std::byte*>(&bits));
}

TEST(Formats, HaveTheCodesOfTheirStandards) {
  struct Known {
    ccom_type_t type;
    double value;
    uint64_t code;
  };
  for (const Known& known : {Known{CCOM_FP32, 1.0, 0x3F800000},
                             {CCOM_FP32, -2.5, 0xC0200000},
                             {CCOM_FP32, 0x1p-149, 1},
                             {CCOM_FP32, 0x1.fffffep127, 0x7F7FFFFF},
                             {CCOM_FP32, kInfinity, 0x7F800000},
                             {CCOM_BF16, 1.0, 0x3F80},
                             {CCOM_BF16, -kInfinity, 0xFF80},
                             {CCOM_FP16, 1.0, 0x3C00},
                             {CCOM_FP16, 65504, 0x7BFF},
                             {CCOM_FP16, 0x1p-24, 1},
                             {CCOM_FP16, -0x1p-14, 0x8400},
                             {CCOM_FP8_E4, 1.0, 0x38},
                             {CCOM_FP8_E4, 240, 0x77},
                             {CCOM_FP8_E4, 0x1p-9, 1},
                             {CCOM_FP8_E5, 1.0, 0x3C},
                             {CCOM_FP8_E5, 57344, 0x7B},
                             {CCOM_FP8_E3, 1.0, 0x30},
                             {CCOM_FP8_E3, 15.5, 0x6F},
                             {CCOM_FP8_E3, -0.0, 0x80}}) {
    EXPECT_EQ(code_of(known.type, known.value), known.code) << type_name(known.type);
    EXPECT_EQ(value_of(known.type, known.code), known.value) << type_name(known.type);
  }
  EXPECT_EQ(code_of(CCOM_FP16, std::nan("")), 0x7E00u);
  EXPECT_TRUE(std::isnan(value_of(CCOM_FP16, 0x7C01)));
  EXPECT_TRUE(std::isnan(value_of(CCOM_BF16, 0xFFFF)));
}

TEST(Formats, RoundToNearestEven) {
  EXPECT_EQ(code_of(CCOM_BF16, 1 + 0x1p-8), 0x3F80u) << "half way, down to the even one";
  EXPECT_EQ(code_of(CCOM_BF16, 1 + 3 * 0x1p-8), 0x3F82u) << "half way, up to the even one";
  EXPECT_EQ(code_of(CCOM_BF16, 1 + 0x1.01p-8), 0x3F81u);
  EXPECT_EQ(code_of(CCOM_BF16, 2 - 0x1p-9), 0x4000u) << "into the next power";
  EXPECT_EQ(code_of(CCOM_FP16, 65519.99), 0x7BFFu);
  EXPECT_EQ(code_of(CCOM_FP16, 65520), 0x7C00u) << "what rounds beyond the largest is infinite";
  EXPECT_EQ(code_of(CCOM_FP16, 0x1p-25), 0u);
  EXPECT_EQ(code_of(CCOM_FP16, 0x1.01p-25), 1u);
  EXPECT_EQ(code_of(CCOM_FP16, 0x1p-14 - 0x1p-26), 0x400u) << "into the normal ones";
  EXPECT_EQ(code_of(CCOM_FP16, -0x1p-26), 0x8000u) << "the sign stays";
}

TEST(Formats, IntegersHaveTheirSignAndWidth) {
  EXPECT_EQ(value_of(CCOM_INT8, 0xFF), -1);
  EXPECT_EQ(value_of(CCOM_UINT8, 0xFF), 255);
  EXPECT_EQ(value_of(CCOM_INT16, 0x8000), -32768);
  EXPECT_EQ(value_of(CCOM_INT32, 0x80000000), -2147483648.0);
  EXPECT_EQ(value_of(CCOM_UINT32, 0x80000000), 2147483648.0);
  EXPECT_EQ(value_of(CCOM_INT64, ~0ull), -1);
  EXPECT_EQ(text_of(CCOM_INT16, 0xFFFE), "-2");
  EXPECT_EQ(text_of(CCOM_UINT16, 0xFFFE), "65534");
  EXPECT_EQ(text_of(CCOM_UINT64, ~0ull), "18446744073709551615");
  EXPECT_EQ(text_of(CCOM_FP16, 0x3C00), "1");
  EXPECT_EQ(text_of(CCOM_FP32, 0x3EAAAAAB), "0.333333343");
}

// Values of an element on ranks, and what they become.
template <class T>
class Reduction {
 public:
  Reduction(ccom_type_t type, ccom_reduction_t reduction) : data_(17, false, type, reduction) {}
  T given(uint32_t rank, uint64_t index) const {
    T value{};
    data_.element(rank, index, reinterpret_cast<std::byte*>(&value));
    return value;
  }
  T becomes(uint64_t index) {
    T value{};
    data_.reduced(kRanks, index, reinterpret_cast<std::byte*>(&value), bound);
    return value;
  }
  template <class Fold>
  void expect(Fold fold) {
    for (uint64_t i = 0; i < 200; ++i) {
      T result = given(kRanks[0], i);
      for (size_t r = 1; r < kRanks.size(); ++r) result = fold(result, given(kRanks[r], i));
      ASSERT_EQ(becomes(i), result) << i;
      ASSERT_EQ(bound, 0) << "integers, and the smallest or largest, are exact";
    }
  }
  static inline const std::vector<uint32_t> kRanks = {5, 2, 9};
  double bound = -1;

 private:
  const Data data_;
};

template <class T>
void expect_integer(ccom_type_t type) {
  using Wide = std::make_unsigned_t<T>;
  Reduction<T>(type, CCOM_ADD).expect([](T a, T b) { return static_cast<T>(Wide(a) + Wide(b)); });
  Reduction<T>(type, CCOM_PRODUCT).expect([](T a, T b) {
    return static_cast<T>(uint64_t(a) * uint64_t(b));
  });
  Reduction<T>(type, CCOM_MIN).expect([](T a, T b) { return std::min(a, b); });
  Reduction<T>(type, CCOM_MAX).expect([](T a, T b) { return std::max(a, b); });
  Reduction<T> average(type, CCOM_AVERAGE), sum(type, CCOM_ADD);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(average.becomes(i), static_cast<T>(sum.becomes(i) / static_cast<T>(3))) << i;
  }
}

TEST(Reductions, OfIntegersWrapAtTheirWidth) {
  expect_integer<uint8_t>(CCOM_UINT8);
  expect_integer<int8_t>(CCOM_INT8);
  expect_integer<uint16_t>(CCOM_UINT16);
  expect_integer<int16_t>(CCOM_INT16);
  expect_integer<uint32_t>(CCOM_UINT32);
  expect_integer<int32_t>(CCOM_INT32);
  expect_integer<uint64_t>(CCOM_UINT64);
  expect_integer<int64_t>(CCOM_INT64);
}

TEST(Reductions, OfFloatsAreExactButForTheDivisionOfAnAverage) {
  Reduction<float>(CCOM_FP32, CCOM_MIN).expect([](float a, float b) { return std::min(a, b); });
  Reduction<float>(CCOM_FP32, CCOM_MAX).expect([](float a, float b) { return std::max(a, b); });
  Reduction<float> sum(CCOM_FP32, CCOM_ADD), product(CCOM_FP32, CCOM_PRODUCT),
      average(CCOM_FP32, CCOM_AVERAGE);
  for (uint64_t i = 0; i < 200; ++i) {
    const double a = sum.given(5, i), b = sum.given(2, i), c = sum.given(9, i);
    ASSERT_EQ(sum.becomes(i), static_cast<float>(a + b + c));
    ASSERT_EQ(sum.bound, 0);
    ASSERT_EQ(average.becomes(i), static_cast<float>((a + b + c) / 3));
    ASSERT_DOUBLE_EQ(average.bound,
                     0x1p-23 * std::fabs(static_cast<float>((a + b + c) / 3)) + 0x1p-149);
    const double x = product.given(5, i), y = product.given(2, i), z = product.given(9, i);
    ASSERT_EQ(product.becomes(i), static_cast<float>(x * y * z));
    ASSERT_EQ(product.bound, 0);
  }
}

// A bound that grows with the number of ranks would take a sum of nothing for the right one.
TEST(Reductions, NoOrderRoundsASumAndOneThatMissesARankIsSeenWhateverTheirNumber) {
  for (const ccom_type_t type :
       {CCOM_FP8_E3, CCOM_FP8_E4, CCOM_FP8_E5, CCOM_FP16, CCOM_BF16, CCOM_FP32}) {
    for (const uint32_t count : {2u, 5u, 8u, 33u, 64u, 300u}) {
      const Data data(11, false, type, CCOM_ADD, count);
      const auto value = [&](uint32_t rank, uint64_t index) {
        std::byte bytes[4] = {};
        data.element(rank, index, bytes);
        return decode(type, bytes);
      };
      std::vector<uint32_t> ranks(count);
      std::iota(ranks.begin(), ranks.end(), 0);
      const uint32_t lost = count / 2;
      constexpr uint64_t kElements = 256;
      uint64_t seen = 0;
      for (uint64_t i = 0; i < kElements; ++i) {
        std::byte expected[4] = {}, partial[4] = {};
        double bound = 1;
        data.reduced(ranks, i, expected, bound);
        ASSERT_EQ(bound, 0) << type_name(type) << " of " << count;
        // In an order of its own, rounded in each step.
        encode(type, 0, partial);
        for (uint32_t n = 0; n < count; ++n) {
          const uint32_t rank = (n * 7 + static_cast<uint32_t>(i)) % count;
          encode(type, decode(type, partial) + value(rank, i), partial);
        }
        ASSERT_EQ(decode(type, partial), decode(type, expected)) << type_name(type) << " " << count;
        seen += value(lost, i) != 0;
      }
      EXPECT_GE(seen, kElements / 64) << type_name(type) << " of " << count;
    }
  }
}

TEST(Reductions, ThatSomeOrderWouldRoundHaveABoundForOneRoundingAStep) {
  // Every other rank: half of a large world, all of which speak at the same indices.
  const Data data(11, false, CCOM_FP8_E5, CCOM_ADD, 16);
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < 32; rank += 2) ranks.push_back(rank);
  bool exact = false, rounded = false;
  for (uint64_t i = 0; i < 64; ++i) {
    std::byte into[1] = {};
    double bound = -1;
    data.reduced(ranks, i, into, bound);
    exact |= bound == 0;
    rounded |= bound > 0;
  }
  EXPECT_TRUE(exact && rounded);
}

TEST(Reductions, AProductStaysInTheRangeOfItsTypeInAnyOrderAndIsBounded) {
  for (const auto& [type, largest, smallest] :
       {std::tuple{CCOM_FP8_E3, 15.5, 0x1p-6}, {CCOM_FP8_E4, 240.0, 0x1p-9}}) {
    const Data data(3, false, type, CCOM_PRODUCT);
    std::vector<uint32_t> ranks(64);
    std::iota(ranks.begin(), ranks.end(), 0);
    bool scaled = false;
    for (uint64_t i = 0; i < 200; ++i) {
      double greatest = 1, least = 1;
      for (const uint32_t rank : ranks) {
        std::byte element[1];
        data.element(rank, i, element);
        const double factor = std::fabs(decode(type, element));
        greatest *= std::max(1.0, factor);
        least *= std::min(1.0, factor);
      }
      // The products of all large factors, and of all small ones, are the worst orders.
      ASSERT_LE(greatest, largest) << type_name(type) << " " << i;
      ASSERT_GE(least, smallest) << type_name(type) << " " << i;
      scaled |= greatest > 1;
      std::byte into[1];
      double bound = 0;
      data.reduced(ranks, i, into, bound);
      ASSERT_TRUE(std::isfinite(bound)) << type_name(type) << " " << i;
    }
    EXPECT_TRUE(scaled) << "factors are not only signs";
  }
}

TEST(Contents, AreAFunctionOfSeedRankAndIndex) {
  const Data data(9, false, CCOM_UINT32, CCOM_ADD), other(10, false, CCOM_UINT32, CCOM_ADD);
  std::array<uint32_t, 8> all{}, part{}, of_rank{}, of_seed{};
  data.fill(3, 0, std::as_writable_bytes(std::span(all)));
  data.fill(3, 5, std::as_writable_bytes(std::span(part).first(3)));
  data.fill(4, 0, std::as_writable_bytes(std::span(of_rank)));
  other.fill(3, 0, std::as_writable_bytes(std::span(of_seed)));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(part[i], all[5 + i]) << i;
  EXPECT_EQ(part[3], 0u) << "no further than asked";
  EXPECT_EQ(std::set<uint32_t>(all.begin(), all.end()).size(), all.size());
  EXPECT_NE(all, of_rank);
  EXPECT_NE(all, of_seed);
}

TEST(Contents, MayAllBeOne) {
  for (const ccom_type_t type : {CCOM_INT8, CCOM_UINT64, CCOM_FP32, CCOM_BF16, CCOM_FP8_E4}) {
    const Data data(9, true, type, CCOM_ADD);
    uint64_t bits = 0;
    data.element(7, 5, reinterpret_cast<std::byte*>(&bits));
    EXPECT_EQ(value_of(type, bits), 1) << type_name(type);
    EXPECT_EQ(data.width(), type_size(type));
  }
}

TEST(Contents, OfFloatsAreExactAndSmallAndFactorsCancelOut) {
  std::set<double> sums, factors;
  const Data sum(1, false, CCOM_FP16, CCOM_ADD), product(1, false, CCOM_FP16, CCOM_PRODUCT);
  for (uint64_t i = 0; i < 4000; ++i) {
    uint64_t bits = 0;
    sum.element(0, i, reinterpret_cast<std::byte*>(&bits));
    sums.insert(value_of(CCOM_FP16, bits));
    product.element(0, i, reinterpret_cast<std::byte*>(&bits));
    factors.insert(value_of(CCOM_FP16, bits));
  }
  EXPECT_EQ(sums.size(), 64u);
  EXPECT_EQ(*sums.begin(), -63.0 / 128);
  EXPECT_EQ(*sums.rbegin(), 63.0 / 128);
  EXPECT_THAT(factors, ::testing::ElementsAre(-2, -1, -0.5, 0.5, 1, 2));
}

TEST(Verification, SeesWhatWasWrittenBesideTheResult) {
  BlockOptions options;
  options.operation = CCOM_BROADCAST;
  options.type = CCOM_INT16;
  const auto made = make_case(options, {}, 64, 2, 1);
  ASSERT_TRUE(made) << made.error().sentence;
  const Work& work = made->works.front();
  const Data data(9, false, work.type, work.reduction);
  const std::vector<uint32_t> ranks = {0, 1};
  auto output = golden(data, work, 1, ranks);
  EXPECT_FALSE(verify(data, work, 1, ranks, output, true));
  output.push_back(kUntouched);
  output.push_back(kUntouched);
  EXPECT_FALSE(verify(data, work, 1, ranks, output, true));
  output.back() = std::byte{0};
  const auto touched = verify(data, work, 1, ranks, output, true);
  ASSERT_TRUE(touched);
  EXPECT_EQ(touched->element, output.size() / 2 - 1);
  EXPECT_EQ(touched->expected, "what was there before");
  EXPECT_EQ(touched->found, "165");
  EXPECT_FALSE(verify(data, work, 1, ranks, output, false)) << "in place it may hold anything";
}

TEST(Verification, OfFloatsTakesANanForANanAndAnInfinityNearTheLargest) {
  BlockOptions options;
  options.type = CCOM_FP32;
  options.reduction = CCOM_AVERAGE;
  const auto made = make_case(options, {}, 64, 3, 0);
  ASSERT_TRUE(made);
  const Work& work = made->works.front();
  const Data data(1, false, work.type, work.reduction);
  const std::vector<uint32_t> ranks = {0, 1, 2};
  const auto expected = golden(data, work, 0, ranks);
  const auto with = [&](float value) {
    auto output = expected;
    std::memcpy(output.data(), &value, sizeof(value));
    return verify(data, work, 0, ranks, output, true);
  };
  float first = 0;
  std::memcpy(&first, expected.data(), sizeof(first));
  EXPECT_FALSE(with(std::nextafter(first, 10.0f)));
  EXPECT_TRUE(with(first + 0.001f));
  EXPECT_TRUE(with(std::nanf("")));
  EXPECT_TRUE(with(std::numeric_limits<float>::infinity()));
  EXPECT_EQ(with(2.5f)->found, "2.5");
  EXPECT_EQ(with(2.5f)->element, 0u);
}

}  // namespace
}  // namespace neuron::nccom
