// SPDX-License-Identifier: Apache-2.0
// What the tests of the numerics share: running something on every SIMD path of this host, bit-wise
// comparison, inputs that cover the awkward values. Single-threaded; restores the path.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NUMERICS_NUMERICS_FIXTURE_H
#define TESTS_UNIT_DRIVER_EMULATOR_NUMERICS_NUMERICS_FIXTURE_H

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "driver/emulator/numerics/simd_path.h"
#include "tests/support/simd_paths.h"

namespace neuron::numerics {

inline constexpr uint32_t kNanBits = 0x7FC00000u;

inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

class OnEveryPath {
 public:
  OnEveryPath() : saved_(simd_path()) {}
  ~OnEveryPath() { select_simd_path(saved_); }

  // Calls compute() on each path and expects the same bits as on the scalar one.
  template <class Compute>
  void expect_same(const Compute& compute, const char* what) {
    ASSERT_TRUE(select_simd_path(SimdPath::kScalar));
    const std::vector<float> expected = compute();
    for (SimdPath path :
         {SimdPath::kAvx2, SimdPath::kAvx512, SimdPath::kAvx512Bf16, SimdPath::kAmx}) {
      if (!test::select_path_or_tell(path)) continue;
      const std::vector<float> found = compute();
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(bits_of(found[i]), bits_of(expected[i]))
            << what << ", element " << i << " on " << simd_path_name(path) << ": " << found[i]
            << " instead of " << expected[i];
      }
    }
  }

 private:
  SimdPath saved_;
};

// Any 32 bits: subnormals, infinities and NaN with payload included.
inline std::vector<float> any_floats(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = from_bits(random());
  return values;
}

inline std::vector<float> normal_floats(size_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(0.0f, scale);
  std::vector<float> values(n);
  for (float& v : values) v = distribution(random);
  return values;
}

inline std::vector<float> special_floats() {
  const float infinity = INFINITY;
  return {0.0f,
          -0.0f,
          1.0f,
          -1.0f,
          infinity,
          -infinity,
          NAN,
          0x1p-149f,
          -0x1p-149f,
          0x1p-126f,
          -0x1p-126f,
          0x1.fffffep127f,
          0.5f,
          -0.5f,
          0x1p24f,
          -0x1p31f,
          88.7f,
          -104.0f,
          3.1415927f,
          9.0f,
          from_bits(0x7F800001u),
          from_bits(0xFFC12345u),
          from_bits(0x007FFFFFu),
          2.0f,
          -3.0f};
}

// Distance from the exact value in units of the last place of a float of that size.
inline long double error_in_ulp(float found, long double exact) {
  if (std::isnan(found) || std::isinf(found)) return 1e30L;
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(found - exact) / std::ldexp(1.0L, std::max(exponent - 24, -149));
}

// Sets sticky flags and an unusual mode, and expects to find them unchanged.
class ExpectMxcsrUntouched {
 public:
  ExpectMxcsrUntouched() : saved_(_mm_getcsr()) { _mm_setcsr(kUnusual); }
  ~ExpectMxcsrUntouched() {
    const unsigned found = _mm_getcsr();
    _mm_setcsr(saved_);
    EXPECT_EQ(found, kUnusual);
  }

 private:
  static constexpr unsigned kUnusual = 0x1F80 | 0x4000 | 0x0011;  // round up; two flags raised
  unsigned saved_;
};

}  // namespace neuron::numerics
#endif
