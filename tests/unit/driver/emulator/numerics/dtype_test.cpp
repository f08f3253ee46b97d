// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/dtype.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tests/unit/driver/emulator/numerics/numerics_fixture.h"

namespace neuron::numerics {
namespace {

struct Format {
  unsigned dtype;
  int exponent_bits, mantissa_bits, bias;
  bool finite_only;
  long double largest;  // from the published tables
};
constexpr Format kFormats[] = {
    {NEURON_DTYPE_BF16, 8, 7, 127, false, 3.3895313892515355e38L},
    {NEURON_DTYPE_F16, 5, 10, 15, false, 65504.0L},
    {NEURON_DTYPE_F8E3, 3, 4, 3, false, 15.5L},
    {NEURON_DTYPE_F8E4, 4, 3, 7, false, 240.0L},
    {NEURON_DTYPE_F8E5, 5, 2, 15, false, 57344.0L},
    {NEURON_DTYPE_F8E4FN, 4, 3, 7, true, 448.0L},
};

unsigned bits_of_format(const Format& f) { return 1 + f.exponent_bits + f.mantissa_bits; }

// The value of a code from the definition of a binary format; NAN and infinities included.
long double value_of(const Format& f, unsigned code) {
  const unsigned top = (1u << f.exponent_bits) - 1;
  const unsigned e = code >> f.mantissa_bits & top, m = code & ((1u << f.mantissa_bits) - 1);
  const long double sign = code >> (f.exponent_bits + f.mantissa_bits) ? -1 : 1;
  const long double fraction = std::ldexp(static_cast<long double>(m), -f.mantissa_bits);
  if (e == top && !f.finite_only) return m ? NAN : sign * INFINITY;
  if (e == top && m == (1u << f.mantissa_bits) - 1) return NAN;
  if (e == 0) return sign * std::ldexp(fraction, 1 - f.bias);
  return sign * std::ldexp(1 + fraction, static_cast<int>(e) - f.bias);
}

float widen_code(const Format& f, unsigned code) {
  std::byte memory[2];
  const uint16_t word = code;
  std::memcpy(memory, &word, 2);
  return widen_one(f.dtype, memory);
}

unsigned narrow_code(const Format& f, float value, const NarrowMode& mode = {},
                     uint32_t random = 0) {
  std::byte memory[2] = {};
  narrow_one(f.dtype, value, memory, mode, random);
  uint16_t word;
  std::memcpy(&word, memory, 2);
  return word;
}

// Nearest by comparing distances: ties to the even code, beyond the middle to the next binade to
// infinity.
unsigned nearest(const Format& f, long double x) {
  const unsigned sign = std::signbit(x) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  const long double size = std::fabs(x);
  const unsigned top = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  unsigned low = 0, high = f.finite_only ? top + (1u << f.mantissa_bits) - 1 : top;
  const unsigned end = high;  // infinity, or the NaN of a format without one
  while (low + 1 < high) {
    const unsigned middle = (low + high) / 2;
    (value_of(f, middle) <= size ? low : high) = middle;
  }
  const long double below = value_of(f, low);
  const long double above =
      high == end ? below + (below - value_of(f, low - 1)) : value_of(f, high);
  if (size - below > above - size) return sign | high;
  if (size - below < above - size) return sign | low;
  return sign | (low % 2 ? high : low);
}

TEST(Dtype, WidensEveryCodeToItsExactValue) {
  for (const Format& f : kFormats) {
    for (unsigned code = 0; code < 1u << bits_of_format(f); ++code) {
      const long double expected = value_of(f, code);
      const float found = widen_code(f, code);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(found)) << f.dtype << " " << code;
      } else {
        ASSERT_EQ(static_cast<long double>(found), expected) << f.dtype << " " << code;
      }
      ASSERT_EQ(std::signbit(found), (code >> (bits_of_format(f) - 1)) != 0);
    }
  }
}

TEST(Dtype, NarrowsEveryCodeBackToItself) {
  for (const Format& f : kFormats) {
    for (unsigned code = 0; code < 1u << bits_of_format(f); ++code) {
      const float value = widen_code(f, code);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(widen_code(f, narrow_code(f, value))));
        continue;
      }
      ASSERT_EQ(narrow_code(f, value), code) << f.dtype;
      // What is representable never moves, whatever the random word.
      ASSERT_EQ(narrow_code(f, value, {Rounding::kStochastic}, 0xFFFFFFFFu), code) << f.dtype;
    }
  }
}

TEST(Dtype, RoundsToTheNearestValueAndTiesToEven) {
  std::mt19937 random(1);
  for (const Format& f : kFormats) {
    for (int i = 0; i < 20000; ++i) {
      // Around the format's range; every other one exactly between two neighbours.
      const unsigned code = random() % (1u << (bits_of_format(f) - 1));
      const float base = widen_code(f, code);
      if (std::isnan(base) || std::isinf(base)) continue;
      float x = base;
      const float next = widen_code(f, code + 1);
      if (std::isfinite(next)) {
        x = i % 2 ? (base + next) / 2 : base + (next - base) * (random() % 1024) / 1024;
      }
      if (random() % 2) x = -x;
      ASSERT_EQ(narrow_code(f, x), nearest(f, x)) << f.dtype << std::hexfloat << " " << x;
    }
    for (float x : any_floats(20000, 2)) {
      if (!std::isfinite(x)) continue;
      ASSERT_EQ(narrow_code(f, x), nearest(f, x)) << f.dtype << std::hexfloat << " " << x;
    }
  }
}

TEST(Dtype, OverflowGivesInfinityOrTheLargestValueWhenSaturating) {
  for (const Format& f : kFormats) {
    const float largest = static_cast<float>(f.largest);
    const unsigned largest_code = narrow_code(f, largest);
    EXPECT_EQ(widen_code(f, largest_code), largest) << f.dtype;
    for (float x : {std::numeric_limits<float>::max(), INFINITY}) {
      const float plain = widen_code(f, narrow_code(f, x));
      if (f.finite_only) {
        EXPECT_TRUE(std::isnan(plain));
      } else {
        EXPECT_EQ(plain, INFINITY) << f.dtype;
      }
      EXPECT_EQ(widen_code(f, narrow_code(f, x, {.saturate = true})), largest) << f.dtype;
      EXPECT_EQ(widen_code(f, narrow_code(f, -x, {.saturate = true})), -largest) << f.dtype;
    }
    EXPECT_TRUE(std::isnan(widen_code(f, narrow_code(f, NAN, {.saturate = true}))));
  }
}

TEST(Dtype, StochasticRoundingMovesUpAsOftenAsTheDistanceSays) {
  // 1024.5 in f16 lies halfway between 1024 and 1025; 1024.25 at a quarter.
  const Format& f16 = kFormats[1];
  RandomStream random(42, 7);
  for (const auto& [x, share] : {std::pair{1024.5f, 0.5}, {1024.25f, 0.25}, {1024.875f, 0.875}}) {
    int up = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const float found =
          widen_code(f16, narrow_code(f16, x, {Rounding::kStochastic}, random.next()));
      ASSERT_TRUE(found == 1024.0f || found == 1025.0f);
      up += found == 1025.0f;
    }
    EXPECT_NEAR(up / double{kDraws}, share, 0.02) << x;
  }
}

TEST(Dtype, StochasticRoundingIsTruncationOfTheSumWithTheRandomWord) {
  // bf16 drops 16 bits: a word whose upper half is r moves up exactly when r >= 2^16 - dropped.
  const Format& bf16 = kFormats[0];
  const float x = from_bits(0x3F804000u);
  EXPECT_EQ(narrow_code(bf16, x, {Rounding::kStochastic}, 0xBFFFFFFFu), 0x3F80u);
  EXPECT_EQ(narrow_code(bf16, x, {Rounding::kStochastic}, 0xC0000000u), 0x3F81u);
  const float largest = from_bits(0x7F7FFFFFu);
  EXPECT_EQ(narrow_code(bf16, largest, {Rounding::kStochastic}, 0xFFFFFFFFu), 0x7F80u);
  EXPECT_EQ(narrow_code(bf16, largest, {Rounding::kStochastic, true}, 0xFFFFFFFFu), 0x7F7Fu);
}

TEST(Dtype, IntegersRoundToEvenAndClamp) {
  struct Case {
    float x;
    int32_t i32;
    uint32_t u32;
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
  };
  constexpr int32_t kLow = std::numeric_limits<int32_t>::min();
  constexpr int32_t kHigh = std::numeric_limits<int32_t>::max();
  for (const Case& c :
       {Case{0.5f, 0, 0, 0, 0, 0, 0}, Case{1.5f, 2, 2, 2, 2, 2, 2}, Case{2.5f, 2, 2, 2, 2, 2, 2},
        Case{-0.75f, -1, 0, -1, 0, -1, 0}, Case{-1.5f, -2, 0, -2, 0, -2, 0},
        Case{127.5f, 128, 128, 127, 128, 128, 128}, Case{-300.0f, -300, 0, -128, 0, -300, 0},
        Case{255.5f, 256, 256, 127, 255, 256, 256},
        Case{70000.0f, 70000, 70000, 127, 255, 32767, 65535},
        Case{3e9f, kHigh, 3000000000u, 127, 255, 32767, 65535},
        Case{-3e9f, kLow, 0, -128, 0, -32768, 0},
        Case{INFINITY, kHigh, 0xFFFFFFFFu, 127, 255, 32767, 65535},
        Case{-INFINITY, kLow, 0, -128, 0, -32768, 0}, Case{NAN, 0, 0, 0, 0, 0, 0}}) {
    const auto check = [&](unsigned dtype, auto expected) {
      decltype(expected) found;
      narrow_one(dtype, c.x, reinterpret_cast<std::byte*>(&found));
      EXPECT_EQ(found, expected) << "dtype " << dtype << " of " << c.x;
    };
    check(NEURON_DTYPE_I32, c.i32);
    check(NEURON_DTYPE_U32, c.u32);
    check(NEURON_DTYPE_I8, c.i8);
    check(NEURON_DTYPE_U8, c.u8);
    check(NEURON_DTYPE_I16, c.i16);
    check(NEURON_DTYPE_U16, c.u16);
  }
}

TEST(Dtype, WideIntegersRoundToTheNearestFloat) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t word = random() >> random() % 32;
    const int32_t whole = static_cast<int32_t>(word);
    ASSERT_EQ(widen_one(NEURON_DTYPE_U32, reinterpret_cast<const std::byte*>(&word)),
              static_cast<float>(word));
    ASSERT_EQ(widen_one(NEURON_DTYPE_I32, reinterpret_cast<const std::byte*>(&whole)),
              static_cast<float>(whole));
  }
}

TEST(Dtype, BulkConversionEqualsOneByOneOnEveryPath) {
  OnEveryPath paths;
  const size_t n = 531;
  const auto source = any_floats(n, 4);
  for (unsigned dtype = 0; dtype < 22; ++dtype) {
    if (!is_convertible(dtype)) continue;
    const size_t bytes = element_bytes(dtype);
    for (ptrdiff_t step : {1, 2, -1}) {
      const size_t span = n * 2 * bytes + 1;
      const ptrdiff_t origin = step < 0 ? static_cast<ptrdiff_t>((n - 1) * bytes) : 0;
      std::vector<std::byte> one(span), bulk(span);
      // One byte off: nothing may rely on alignment.
      for (size_t i = 0; i < n; ++i) {
        narrow_one(dtype, source[i],
                   one.data() + 1 + origin +
                       static_cast<ptrdiff_t>(i) * step * static_cast<ptrdiff_t>(bytes));
      }
      paths.expect_same(
          [&] {
            narrow(dtype, source.data(), bulk.data() + 1 + origin, step, n);
            EXPECT_EQ(std::memcmp(one.data() + 1, bulk.data() + 1, span - 1), 0)
                << dtype << " " << step;
            std::vector<float> wide(n);
            widen(dtype, bulk.data() + 1 + origin, step, wide.data(), n);
            for (size_t i = 0; i < n; ++i) {
              const std::byte* element =
                  bulk.data() + 1 + origin +
                  static_cast<ptrdiff_t>(i) * step * static_cast<ptrdiff_t>(bytes);
              EXPECT_EQ(bits_of(wide[i]), bits_of(widen_one(dtype, element))) << dtype << " " << i;
            }
            return wide;
          },
          "bulk conversion");
    }
  }
}

TEST(Dtype, BulkStochasticRoundingTakesOneWordPerElement) {
  const auto source = normal_floats(100, 5);
  RandomStream stream(9, 1, 6), same(9, 1, 6);
  std::vector<uint16_t> found(100), expected(100);
  narrow(NEURON_DTYPE_BF16, source.data(), reinterpret_cast<std::byte*>(found.data()), 1, 100,
         {Rounding::kStochastic}, &stream);
  for (size_t i = 0; i < 100; ++i) {
    narrow_one(NEURON_DTYPE_BF16, source[i], reinterpret_cast<std::byte*>(&expected[i]),
               {Rounding::kStochastic}, same.next());
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(stream.position(), 106u);
}

TEST(Dtype, Tf32KeepsTenMantissaBits) {
  const auto rounded = [](float x) {
    return widen_one(NEURON_DTYPE_TF32, reinterpret_cast<const std::byte*>(&x));
  };
  EXPECT_EQ(rounded(1.0f + 0x1p-11f), 1.0f);                       // tie to even
  EXPECT_EQ(rounded(1.0f + 0x1p-10f + 0x1p-11f), 1.0f + 0x1p-9f);  // tie to even, upwards
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), INFINITY);
  EXPECT_TRUE(std::isnan(rounded(from_bits(0x7F800001u))));
}

TEST(Dtype, ExponentBiasScalesF8) {
  const std::byte one_half{0x28};  // f8e4: exponent 5, mantissa 0: 2^(5 - 7)
  EXPECT_EQ(widen_one(NEURON_DTYPE_F8E4, &one_half), 0.25f);
  EXPECT_EQ(widen_one(NEURON_DTYPE_F8E4, &one_half, 4), 2.0f);
  std::byte back{};
  narrow_one(NEURON_DTYPE_F8E4, 2.0f, &back, {.bias = 4});
  EXPECT_EQ(back, one_half);
}

TEST(Dtype, SixtyFourBitIntegersHaveASizeButNoConversion) {
  for (unsigned dtype : {NEURON_DTYPE_U64, NEURON_DTYPE_I64}) {
    EXPECT_EQ(element_bytes(dtype), 8u);
    EXPECT_FALSE(is_convertible(dtype));
  }
  EXPECT_EQ(element_bytes(NEURON_DTYPE_NONE), 0u);
  EXPECT_EQ(element_bytes(63), 0u);
  uint64_t memory = 5;
  narrow_one(NEURON_DTYPE_U64, 1.0f, reinterpret_cast<std::byte*>(&memory));
  EXPECT_EQ(memory, 5u);
}

}  // namespace
}  // namespace neuron::numerics
