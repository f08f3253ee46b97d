// SPDX-License-Identifier: Apache-2.0
#include "driver/base/small_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace neuron::base {
namespace {

constexpr SmallFloat kFormats[] = {kFp8E3, kFp8E4, kFp8E5, kFp8E4Fn, kFp16, kBf16};

float with_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

// The code whose value is nearest, of two equally near ones the even code, by trying all of them.
uint32_t nearest_code(const SmallFloat& format, float value) {
  uint32_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (uint32_t code = 0; code <= format.largest(); ++code) {
    const double away = std::abs(double{widen(format, code)} - double{value});
    if (away < distance || (away == distance && code % 2 == 0)) {
      best = code;
      distance = away;
    }
  }
  return best;
}

TEST(SmallFloat, KnownCodesHaveTheirValues) {
  EXPECT_EQ(widen(kBf16, 0x3F80), 1.0f);
  EXPECT_EQ(widen(kFp16, 0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(widen(kFp8E4, 0x77), 240.0f);
  EXPECT_EQ(widen(kFp8E3, 0x6F), 15.5f);
  EXPECT_EQ(widen(kFp8E5, 0x7B), 57344.0f);
  EXPECT_EQ(narrow(kFp8E4, 1000.0f), 0x78u);
  EXPECT_EQ(narrow(kFp16, 65520.0f), 0x7C00u);
  EXPECT_EQ(narrow(kFp16, std::ldexp(3.0f, -25)), 0x0002u);  // half way between 1 and 2: to even
  EXPECT_EQ(narrow(kBf16, -0.0f), 0x8000u);
}

TEST(SmallFloat, EveryCodeComesBack) {
  for (const SmallFloat& format : kFormats) {
    for (uint32_t code = 0; code < 1u << format.width(); ++code) {
      const float value = widen(format, code);
      if (std::isnan(value)) continue;
      ASSERT_EQ(narrow(format, value), code);
    }
  }
}

TEST(SmallFloat, NarrowingFindsTheNearestCodeAndTheEvenOneOfTwo) {
  for (const SmallFloat& format : {kFp8E3, kFp8E4, kFp8E5, kFp8E4Fn}) {
    const double largest = widen(format, format.largest());
    for (uint32_t code = 0; code < format.largest(); ++code) {
      const float here = widen(format, code);
      const float half = (here + widen(format, code + 1)) / 2;  // exact
      for (const float value :
           {here, std::nextafter(half, 0.0f), half, std::nextafter(half, 1e9f)}) {
        ASSERT_EQ(narrow(format, value), nearest_code(format, value)) << value;
      }
    }
    std::mt19937 random(1);
    std::uniform_real_distribution<float> values(0, static_cast<float>(largest));
    for (int n = 0; n < 1000; ++n) {
      const float value = values(random);
      ASSERT_EQ(narrow(format, value), nearest_code(format, value)) << value;
      ASSERT_EQ(narrow(format, -value), nearest_code(format, value) | 1u << (format.width() - 1));
    }
  }
}

TEST(SmallFloat, Bf16IsTheUpperHalfOfFp32RoundedToEvenSubnormalsIncluded) {
  for (const uint32_t bits : {0x00000001u, 0x00007FFFu, 0x00008000u, 0x00008001u, 0x00018000u,
                              0x007F8000u, 0x3F808000u, 0x3F818000u, 0x7F7F7FFFu}) {
    const uint32_t expected = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    EXPECT_EQ(narrow(kBf16, with_bits(bits)), expected) << std::hex << bits;
    EXPECT_EQ(narrow(kBf16, with_bits(bits | 0x80000000u)), expected | 0x8000u);
  }
  EXPECT_EQ(widen(kBf16, 0x0001), with_bits(0x00010000));
}

TEST(SmallFloat, WhatIsTooLargeBecomesInfinityOrIfAskedTheLargestNumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const SmallFloat& format : {kFp8E3, kFp8E4, kFp8E5, kFp16, kBf16}) {
    for (const float value : {infinity, std::numeric_limits<float>::max()}) {
      EXPECT_EQ(narrow(format, value), format.infinity());
      EXPECT_EQ(narrow(format, value, {.saturate = true}), format.largest());
      EXPECT_EQ(widen(format, narrow(format, -value)), -infinity);
    }
  }
}

TEST(SmallFloat, AFiniteOnlyFormatHasOneNanAndMakesItOfWhatIsTooLarge) {
  EXPECT_EQ(widen(kFp8E4Fn, 0x7E), 448.0f);
  EXPECT_TRUE(std::isnan(widen(kFp8E4Fn, 0x7F)));
  EXPECT_TRUE(std::isnan(widen(kFp8E4Fn, 0xFF)));
  EXPECT_EQ(narrow(kFp8E4Fn, 449.0f), 0x7Eu);
  EXPECT_EQ(narrow(kFp8E4Fn, 465.0f), 0x7Fu);
  EXPECT_EQ(narrow(kFp8E4Fn, 465.0f, {.saturate = true}), 0x7Eu);
  EXPECT_EQ(narrow(kFp8E4Fn, -std::numeric_limits<float>::infinity()), 0xFFu);
}

TEST(SmallFloat, NansStayQuietNansOfTheirSign) {
  for (const SmallFloat& format : kFormats) {
    for (const uint32_t sign : {0u, 1u}) {
      const uint32_t code = narrow(format, with_bits(sign << 31 | 0x7F800001u));
      EXPECT_EQ(code >> (format.width() - 1), sign);
      EXPECT_TRUE(std::isnan(widen(format, code)));
      EXPECT_NE(std::bit_cast<uint32_t>(widen(format, code)) & 0x00400000u, 0u);
    }
  }
  // The payload of a signalling NaN moves up with it.
  EXPECT_EQ(std::bit_cast<uint32_t>(widen(kFp16, 0x7C01)), 0x7FC02000u);
}

TEST(SmallFloat, AnotherBiasMovesAllValuesByAPowerOfTwo) {
  SmallFloat format = kFp8E4;
  format.bias = 20;
  for (uint32_t code = 0; code < format.infinity(); ++code) {
    EXPECT_EQ(widen(format, code), std::ldexp(widen(kFp8E4, code), -13));
    EXPECT_EQ(narrow(format, widen(format, code)), code);
  }
}

TEST(SmallFloat, StochasticRoundingGoesUpAsOftenAsTheValueIsNearTheUpperCode) {
  // A quarter of the way from 1 to the next code.
  const float value = 1.0f + 0.25f / 8;
  const uint32_t one = narrow(kFp8E4, 1.0f);
  unsigned up = 0;
  for (uint32_t n = 0; n < 4096; ++n) {
    const uint32_t code = narrow(kFp8E4, value, {.stochastic = true, .random = n << 20});
    ASSERT_TRUE(code == one || code == one + 1);
    up += code - one;
  }
  EXPECT_EQ(up, 1024u);
  // What is exact stays, whatever is drawn; infinity too.
  EXPECT_EQ(narrow(kFp8E4, 1.0f, {.stochastic = true, .random = ~0u}), one);
  EXPECT_EQ(
      narrow(kFp16, std::numeric_limits<float>::infinity(), {.stochastic = true, .random = ~0u}),
      kFp16.infinity());
}

}  // namespace
}  // namespace neuron::base
