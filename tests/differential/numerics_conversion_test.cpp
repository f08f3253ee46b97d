// SPDX-License-Identifier: Apache-2.0
// Conversions of every float and integer type against a reference that knows only the list of
// values a type has: every code, every pair of neighbours with the points around the middle between
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "driver/emulator/numerics/dtype.h"
#include "driver/emulator/numerics/simd_path.h"
#include "driver/isa/instruction.h"
#include "hw/isa.h"
#include "tests/support/simd_paths.h"

namespace neuron::numerics {
namespace {

struct Format {
  unsigned dtype;
  int exponent_bits, mantissa_bits, bias;
  bool finite_only = false;  // OCP's f8e4m3: one NaN of each sign above the largest number
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
};
constexpr Format kFormats[] = {
    {NEURON_DTYPE_BF16, 8, 7, 127}, {NEURON_DTYPE_F16, 5, 10, 15},
    {NEURON_DTYPE_F8E3, 3, 4, 3},   {NEURON_DTYPE_F8E4, 4, 3, 7},
    {NEURON_DTYPE_F8E5, 5, 2, 15},  {NEURON_DTYPE_F8E4FN, 4, 3, 7, true}};

// The positive finite values in ascending order; code c has value [c].
std::vector<double> values_of(const Format& f) {
  std::vector<double> values;
  const int top = (1 << f.exponent_bits) - 1;
  for (int exponent = 0; exponent < top + (f.finite_only ? 1 : 0); ++exponent) {
    const int end = (1 << f.mantissa_bits) - (exponent == top ? 1 : 0);
    for (int mantissa = 0; mantissa < end; ++mantissa) {
      const double significand = std::ldexp(mantissa, -f.mantissa_bits) + (exponent > 0 ? 1 : 0);
      values.push_back(std::ldexp(significand, std::max(exponent, 1) - f.bias));
    }
  }
  return values;
}

class Reference {
 public:
  explicit Reference(const Format& format) : f_(format), values_(values_of(format)) {}
  const std::vector<double>& values() const { return values_; }
  // Of f8e4fn: its NaN.
  uint32_t infinity() const { return static_cast<uint32_t>(values_.size()); }

  // Nearest, ties to the even code; beyond half a step above the largest value, infinity (of
  // f8e4fn, NaN).
  uint32_t nearest(float x, bool saturate) const {
    const uint32_t sign = std::signbit(x) ? 1u << (f_.bits() - 1) : 0;
    const uint32_t largest = infinity() - 1;
    if (std::isnan(x)) return sign | infinity() | 1u << (f_.mantissa_bits - 1);
    const double size = std::fabs(static_cast<double>(x));
    const auto above = std::upper_bound(values_.begin(), values_.end(), size);
    const auto low = static_cast<uint32_t>(above - values_.begin()) - 1;
    const double low_value = values_[low];
    const double next = low == largest ? 2 * low_value - values_[low - 1] : values_[low + 1];
    uint32_t code = low;
    if (size - low_value > next - size || (size - low_value == next - size && low % 2 == 1)) ++code;
    if (code > largest || std::isinf(x)) code = saturate ? largest : infinity();
    return sign | code;
  }

 private:
  Format f_;
  std::vector<double> values_;
};

uint32_t narrowed(unsigned dtype, float x, const NarrowMode& mode = {}, uint32_t random = 0) {
  uint32_t code = 0;
  std::byte bytes[4] = {};
  narrow_one(dtype, x, bytes, mode, random);
  std::memcpy(&code, bytes, sizeof(code));
  return code;
}

// Both neighbours of every value, the middles, and what lies next to each.
std::vector<float> around_every_value(const Reference& reference) {
  std::vector<float> samples;
  const auto add = [&](double x) {
    const auto f = static_cast<float>(x);
    for (const float v : {f, std::nextafterf(f, INFINITY), std::nextafterf(f, -INFINITY)}) {
      samples.push_back(v);
      samples.push_back(-v);
    }
  };
  const auto& values = reference.values();
  for (size_t i = 0; i < values.size(); ++i) {
    add(values[i]);
    const double next = i + 1 < values.size() ? values[i + 1] : 2 * values[i] - values[i - 1];
    add((values[i] + next) / 2);
    if (i + 1 == values.size()) add(next);
  }
  for (const float v : {INFINITY, NAN, 0x1p-149f, 0x1p-126f, 0x1p-127f}) {
    samples.push_back(v);
    samples.push_back(-v);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) samples.push_back(std::bit_cast<float>(uint32_t(random())));
  return samples;
}

// bf16 keeps the upper payload bits of a NaN; the other formats have one quiet NaN.
bool same_code(const Format& f, float x, uint32_t found, uint32_t expected) {
  if (std::isnan(x) && f.dtype == NEURON_DTYPE_BF16) {
    return found == ((std::bit_cast<uint32_t>(x) | 0x00400000u) >> 16);
  }
  return found == expected;
}

TEST(NumericsConversion, NarrowsToNearestEvenAroundEveryValueOfEveryType) {
  for (const Format& f : kFormats) {
    const Reference reference(f);
    for (const float x : around_every_value(reference)) {
      for (const bool saturate : {false, true}) {
        const uint32_t expected = reference.nearest(x, saturate);
        const uint32_t found = narrowed(f.dtype, x, {.saturate = saturate});
        ASSERT_TRUE(same_code(f, x, found, expected))
            << isa::dtype_name(f.dtype) << ": " << x << " became " << std::hex << found
            << " instead of " << expected;
      }
    }
  }
}

TEST(NumericsConversion, NarrowsWithEveryExponentBias) {
  for (Format f : kFormats) {
    if (f.bits() != 8 || f.finite_only) continue;  // whose bias is part of the format
    for (int bias = 1; bias <= 31; ++bias) {
      f.bias = bias;
      const Reference reference(f);
      const NarrowMode mode{.bias = static_cast<uint8_t>(bias)};
      for (const double value : reference.values()) {
        for (const double x : {value, value * 1.03125, value * 0.96875}) {
          const auto sample = static_cast<float>(x);
          ASSERT_EQ(narrowed(f.dtype, sample, mode), reference.nearest(sample, false))
              << isa::dtype_name(f.dtype) << " with bias " << bias << ": " << x;
        }
      }
    }
  }
}

TEST(NumericsConversion, WidensEveryCodeOfEveryTypeExactly) {
  for (Format f : kFormats) {
    for (int bias = 0; bias <= (f.bits() == 8 && !f.finite_only ? 31 : 0); ++bias) {
      if (bias != 0) f.bias = bias;
      const auto values = values_of(f);
      for (uint32_t code = 0; code < 1u << f.bits(); ++code) {
        const uint32_t size = code & ((1u << (f.bits() - 1)) - 1);
        std::byte bytes[4];
        std::memcpy(bytes, &code, sizeof(code));
        const float found = widen_one(f.dtype, bytes, static_cast<uint8_t>(bias));
        ASSERT_EQ(std::signbit(found), size != code);
        if (size < values.size()) {
          ASSERT_EQ(std::fabs(found), static_cast<float>(values[size]));
        } else if (size == values.size() && !f.finite_only) {
          ASSERT_TRUE(std::isinf(found));
        } else {
          ASSERT_TRUE(std::isnan(found));
        }
      }
    }
  }
}

// The bulk routines, on every path, with strides: as one element at a time.
TEST(NumericsConversion, IsTheSameInBulkOnEveryPath) {
  const SimdPath saved = simd_path();
  constexpr unsigned kTypes[] = {NEURON_DTYPE_I8,   NEURON_DTYPE_U8,   NEURON_DTYPE_I16,
                                 NEURON_DTYPE_U16,  NEURON_DTYPE_I32,  NEURON_DTYPE_U32,
                                 NEURON_DTYPE_BF16, NEURON_DTYPE_F16,  NEURON_DTYPE_F32,
                                 NEURON_DTYPE_F32R, NEURON_DTYPE_TF32, NEURON_DTYPE_F8E3,
                                 NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5, NEURON_DTYPE_F8E4FN};
  const Reference halves(kFormats[1]);
  auto samples = around_every_value(halves);
  samples.resize(samples.size() / 2 + 3);
  const size_t n = samples.size();
  for (const unsigned dtype : kTypes) {
    const size_t bytes = element_bytes(dtype);
    std::vector<std::byte> expected(n * bytes), found(2 * n * bytes);
    for (size_t i = 0; i < n; ++i) narrow_one(dtype, samples[i], expected.data() + i * bytes);
    for (const SimdPath path : {SimdPath::kScalar, SimdPath::kAvx2, SimdPath::kAvx512}) {
      if (!test::select_path_or_tell(path)) continue;
      narrow(dtype, samples.data(), found.data(), 1, n);
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), n * bytes), 0)
          << isa::dtype_name(dtype) << " on " << simd_path_name(path);
      narrow(dtype, samples.data(), found.data(), 2, n);
      std::vector<float> wide(n), strided(n);
      widen(dtype, expected.data(), 1, wide.data(), n);
      widen(dtype, found.data(), 2, strided.data(), n);
      for (size_t i = 0; i < n; ++i) {
        const float one = widen_one(dtype, expected.data() + i * bytes);
        ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(one));
        ASSERT_EQ(std::bit_cast<uint32_t>(strided[i]), std::bit_cast<uint32_t>(one));
      }
    }
  }
  select_simd_path(saved);
}

// Up exactly for as many of the 2^32 words as the distance to the lower neighbour says.
TEST(NumericsConversion, RoundsStochasticallyAtTheExactThreshold) {
  for (const Format& f : kFormats) {
    const auto values = values_of(f);
    const size_t step = f.bits() == 8 ? 1 : 61;
    for (size_t low = 0; low + 1 < values.size(); low += step) {
      for (const uint32_t eighths : {1u, 3u, 4u, 7u}) {
        const double x = values[low] + (values[low + 1] - values[low]) * eighths / 8;
        const auto sample = static_cast<float>(x);
        if (sample != x || x < 0x1p-126) continue;  // README: fp32 subnormals are their own case
        const uint32_t threshold = (8 - eighths) << 29;  // words from here on round up
        const NarrowMode mode{Rounding::kStochastic, false, 0};
        ASSERT_EQ(narrowed(f.dtype, sample, mode, threshold), low + 1)
            << isa::dtype_name(f.dtype) << ": " << x;
        ASSERT_EQ(narrowed(f.dtype, sample, mode, threshold - 1), low)
            << isa::dtype_name(f.dtype) << ": " << x;
      }
      ASSERT_EQ(narrowed(f.dtype, static_cast<float>(values[low]),
                         {Rounding::kStochastic, false, 0}, 0xFFFFFFFFu),
                low);
    }
  }
}

template <class T>
void check_integers(unsigned dtype, const std::vector<float>& samples) {
  for (const float x : samples) {
    long double expected = std::nearbyintl(x);
    expected = std::min<long double>(expected, std::numeric_limits<T>::max());
    expected = std::max<long double>(expected, std::numeric_limits<T>::min());
    const T wanted = std::isnan(x) ? T{0} : static_cast<T>(expected);
    T found;
    const uint32_t code = narrowed(dtype, x);
    std::memcpy(&found, &code, sizeof(found));
    ASSERT_EQ(found, wanted) << isa::dtype_name(dtype) << " of " << x;
  }
}

TEST(NumericsConversion, RoundsAndClampsToIntegers) {
  std::vector<float> samples{NAN, INFINITY, -INFINITY, 0x1p31f, -0x1p31f, 0x1p32f, 2147483520.0f};
  for (int i = -70000; i <= 70000; ++i) {
    samples.push_back(static_cast<float>(i) / 2);
    samples.push_back(std::nextafterf(static_cast<float>(i) / 2, 1e9f));
  }
  std::mt19937 random(2);
  for (int i = 0; i < 50000; ++i) samples.push_back(std::bit_cast<float>(uint32_t(random())));
  check_integers<int8_t>(NEURON_DTYPE_I8, samples);
  check_integers<uint8_t>(NEURON_DTYPE_U8, samples);
  check_integers<int16_t>(NEURON_DTYPE_I16, samples);
  check_integers<uint16_t>(NEURON_DTYPE_U16, samples);
  check_integers<int32_t>(NEURON_DTYPE_I32, samples);
  check_integers<uint32_t>(NEURON_DTYPE_U32, samples);
}

TEST(NumericsConversion, WidensIntegersToTheNearestFloat) {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    const uint32_t word = random() >> random() % 32;
    std::byte bytes[4];
    std::memcpy(bytes, &word, 4);
    ASSERT_EQ(widen_one(NEURON_DTYPE_U32, bytes), static_cast<float>(word));
    ASSERT_EQ(widen_one(NEURON_DTYPE_I32, bytes), static_cast<float>(static_cast<int32_t>(word)));
  }
}

}  // namespace
}  // namespace neuron::numerics
