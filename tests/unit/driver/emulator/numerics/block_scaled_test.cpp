// SPDX-License-Identifier: Apache-2.0
// Codes of 8 and 4 bits to bf16: every code, every scale, on every SIMD path, from every distance.
#include "driver/emulator/numerics/block_scaled.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "driver/emulator/numerics/f8_simd.h"
#include "driver/emulator/numerics/simd_path.h"
#include "tests/support/simd_paths.h"

namespace neuron::numerics {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The value of a code by the formula of its format; `top`: what the highest exponent means.
enum class Top { kInfinityAndNan, kOneNan, kNumbers };
double value_of(unsigned code, int bits, int mantissa_bits, int bias, Top top) {
  const int exponent_bits = bits - 1 - mantissa_bits;
  const unsigned magnitude = code & ((1u << (bits - 1)) - 1);
  const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>(magnitude >> mantissa_bits);
  const double sign = code >> (bits - 1) != 0 ? -1 : 1;
  if (top == Top::kInfinityAndNan && exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : kNan;
  }
  if (top == Top::kOneNan && magnitude == (1u << (bits - 1)) - 1) return kNan;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, exponent - bias));
}

double of_bf16(uint16_t code) { return std::bit_cast<float>(uint32_t{code} << 16); }

bool same(double expected, uint16_t found) {
  if (std::isnan(expected)) return std::isnan(of_bf16(found));
  return expected == of_bf16(found) && std::signbit(expected) == (found >> 15 != 0);
}

template <class Work>
void on_every_path(const Work& work) {
  test::on_each_path({SimdPath::kScalar, SimdPath::kAvx2, SimdPath::kAvx512, SimdPath::kAvx512Bf16,
                      SimdPath::kAmx},
                     work);
}

TEST(BlockScaledCodes, EveryF8CodeIsItsNumberInBf16) {
  const struct {
    unsigned dtype;
    int mantissa, bias;
    Top top;
  } formats[] = {{NEURON_DTYPE_F8E3, 4, 3, Top::kInfinityAndNan},
                 {NEURON_DTYPE_F8E4, 3, 7, Top::kInfinityAndNan},
                 {NEURON_DTYPE_F8E5, 2, 15, Top::kInfinityAndNan},
                 {NEURON_DTYPE_F8E4FN, 3, 7, Top::kOneNan}};
  std::vector<std::byte> codes(256);
  for (unsigned c = 0; c < 256; ++c) codes[c] = static_cast<std::byte>(c);
  on_every_path([&](SimdPath path) {
    for (const auto& f : formats) {
      std::vector<uint16_t> out(256, 0x1234);
      const size_t done = f8_to_bf16(f.dtype, codes.data(), out.data(), 256);
      EXPECT_EQ(done, path == SimdPath::kScalar ? 0U : 256U);
      for (unsigned c = 0; c < done; ++c) {
        EXPECT_TRUE(same(value_of(c, 8, f.mantissa, f.bias, f.top), out[c])) << f.dtype << " " << c;
      }
    }
  });
}

TEST(BlockScaledCodes, EveryScaledCodeIsItsNumberInBf16) {
  const struct {
    unsigned dtype;
    int bits, mantissa, bias;
    Top top;
  } formats[] = {{NEURON_DTYPE_F8E5X4, 8, 2, 15, Top::kInfinityAndNan},
                 {NEURON_DTYPE_F8E4FNX4, 8, 3, 7, Top::kOneNan},
                 {NEURON_DTYPE_F4X4, 4, 1, 1, Top::kNumbers}};
  on_every_path([&](SimdPath) {
    for (const auto& f : formats) {
      const size_t n = size_t{1} << f.bits, bytes = f.bits == 8 ? 4 : 2;
      for (unsigned which = 0; which < 4; ++which) {
        std::vector<std::byte> elements(n * bytes);
        for (uint32_t c = 0; c < n; ++c) {
          // The other three codes are as unlike it as can be.
          uint32_t word = 0;
          for (unsigned j = 0; j < 4; ++j) word |= (j == which ? c : ~c & (n - 1)) << (j * f.bits);
          std::memcpy(elements.data() + c * bytes, &word, bytes);
        }
        for (unsigned scale = 0; scale < 256; ++scale) {
          std::vector<uint16_t> out(n);
          const std::vector<std::byte> scales(n, static_cast<std::byte>(scale));
          scaled_codes(f.dtype, elements.data(), 1, which, scales.data(), 1, n, out.data());
          for (unsigned c = 0; c < n; ++c) {
            double expected = value_of(c, f.bits, f.mantissa, f.bias, f.top);
            expected = scale == 255 ? kNan : std::ldexp(expected, static_cast<int>(scale) - 127);
            if (std::fabs(expected) < 0x1p-126) expected = std::copysign(0.0, expected);
            if (std::fabs(expected) >= 0x1p128) expected = std::copysign(INFINITY, expected);
            ASSERT_TRUE(same(expected, out[c])) << f.dtype << " " << scale << " " << c;
          }
        }
      }
    }
  });
}

// A row of codes that ends anywhere: nothing is written behind it.
TEST(BlockScaledCodes, F8CodesOfAnyLengthEndWhereTheyEnd) {
  std::vector<std::byte> codes(300);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 53 + i / 9);
  on_every_path([&](SimdPath) {
    for (const size_t n : {1u, 31u, 32u, 63u, 64u, 65u, 127u, 200u, 300u}) {
      std::vector<uint16_t> out(n + 1, 0xABCD);
      const size_t done = f8_to_bf16(NEURON_DTYPE_F8E4, codes.data(), out.data(), n);
      ASSERT_LE(done, n);
      EXPECT_EQ(out[n], 0xABCD);
      for (size_t i = 0; i < done; ++i) {
        const auto code = static_cast<unsigned>(codes[i]);
        EXPECT_TRUE(same(value_of(code, 8, 3, 7, Top::kInfinityAndNan), out[i])) << n << " " << i;
      }
    }
  });
}

// Lengths and distances that are no whole vectors.
TEST(BlockScaledCodes, ScaledCodesOfAnyLengthAndDistanceAgree) {
  std::vector<std::byte> elements(4 * 400), scales(400);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<std::byte>(i * 97 + i / 7);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(120 + i % 15);
  on_every_path([&](SimdPath) {
    for (const size_t n : {1u, 7u, 16u, 33u, 64u, 100u}) {
      for (const ptrdiff_t step : {1, 3}) {
        std::vector<uint16_t> out(n + 1, 0xABCD);
        scaled_codes(NEURON_DTYPE_F8E5X4, elements.data(), step, 2, scales.data(), 1, n,
                     out.data());
        EXPECT_EQ(out[n], 0xABCD);
        for (size_t i = 0; i < n; ++i) {
          uint16_t one = 0;
          scaled_codes(NEURON_DTYPE_F8E5X4, elements.data() + 4 * static_cast<ptrdiff_t>(i) * step,
                       1, 2, scales.data() + i, 1, 1, &one);
          EXPECT_EQ(out[i], one) << n << " " << step << " " << i;
        }
      }
    }
  });
}

}  // namespace
}  // namespace neuron::numerics
