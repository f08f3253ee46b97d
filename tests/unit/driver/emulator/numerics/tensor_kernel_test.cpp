// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/tensor_kernel.h"

#include <cstring>
#include <memory>

#include "driver/emulator/numerics/tensor_kernel_scalar.h"
#include "tests/unit/driver/emulator/numerics/numerics_fixture.h"

namespace neuron::numerics {
namespace {

RowView view_of(const std::vector<float>& matrix, size_t columns) {
  return {reinterpret_cast<const std::byte*>(matrix.data()),
          static_cast<ptrdiff_t>(columns * sizeof(float))};
}

struct Shape {
  int k, m;
  size_t n;
};
// The last ones fill all tiles of the weights, and are packed in several blocks and in two runs.
constexpr Shape kShapes[] = {{1, 1, 1},      {2, 3, 5},      {31, 2, 16},    {32, 4, 17},
                             {33, 7, 64},    {64, 10, 8},    {100, 5, 129},  {128, 3, 65},
                             {128, 16, 100}, {128, 127, 64}, {97, 128, 192}, {40, 11, 577}};

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, Shape s,
                           std::vector<float> psum, ptrdiff_t stride, bool accumulate) {
  auto weights = std::make_unique<Stationary>();
  weights->load(view_of(a, s.m), s.k, s.m);
  multiply(*weights, view_of(b, s.n), s.n, psum.data(), stride, accumulate);
  return psum;
}

// The specified order, written as it is specified.
float expected_cell(const std::vector<float>& a, const std::vector<float>& b, Shape s, int m,
                    size_t n, float start) {
  float c = start;
  for (int step = 0; step < s.k; step += 32) {
    float chain[2] = {0.0f, 0.0f};
    for (int k = step; k < step + 32; ++k) {
      const float x = k < s.k ? a[k * s.m + m] : 0.0f;
      const float y = k < s.k ? b[k * s.n + n] : 0.0f;
      chain[k % 2] = std::fma(x, y, chain[k % 2]);
    }
    c = c + (chain[0] + chain[1]);
  }
  return c;
}

TEST(TensorKernel, SumsEvenAndOddChainsOfThirtyTwoDeepSteps) {
  for (const Shape& s : kShapes) {
    const auto a = normal_floats(s.k * s.m, 1), b = normal_floats(s.k * s.n, 2);
    const auto start = normal_floats(s.m * s.n, 3);
    const auto fresh = product(a, b, s, start, s.n, false);
    const auto added = product(a, b, s, start, s.n, true);
    for (int m = 0; m < s.m; ++m) {
      for (size_t n = 0; n < s.n; ++n) {
        const size_t cell = m * s.n + n;
        ASSERT_EQ(bits_of(fresh[cell]), bits_of(expected_cell(a, b, s, m, n, 0.0f)))
            << "k " << s.k << " m " << m << " n " << n;
        ASSERT_EQ(bits_of(added[cell]), bits_of(expected_cell(a, b, s, m, n, start[cell])));
      }
    }
  }
}

TEST(TensorKernel, OrderOfTheSumShowsInTheResult) {
  // 2^24 swallows a one that is added alone: the even chain keeps it, the odd chain loses its own.
  std::vector<float> a(32, 1.0f), b(32, 0.0f);
  b[0] = 0x1p24f;
  b[2] = -0x1p24f;
  b[4] = 1.0f;
  b[1] = 0x1p24f;
  b[3] = 1.0f;
  b[5] = -0x1p24f;
  const auto result = product(a, b, {32, 1, 1}, {0.0f}, 1, false);
  EXPECT_EQ(result[0], 1.0f);
}

TEST(TensorKernel, EveryPathGivesTheSameBitsOnRandomValues) {
  OnEveryPath paths;
  for (const Shape& s : kShapes) {
    const auto a = normal_floats(s.k * s.m, 4), b = normal_floats(s.k * s.n, 5);
    paths.expect_same(
        [&] { return product(a, b, s, std::vector<float>(s.m * s.n, 2.5f), s.n, true); },
        "normal values");
  }
}

TEST(TensorKernel, EveryPathGivesTheSameBitsOnSpecialValues) {
  OnEveryPath paths;
  const Shape s{64, 5, 37};
  const auto special = special_floats();
  std::mt19937 random(6);
  for (int round = 0; round < 20; ++round) {
    auto a = normal_floats(s.k * s.m, random()), b = normal_floats(s.k * s.n, random());
    for (float& v : a) {
      if (random() % 64 == 0) v = special[random() % special.size()];
    }
    for (float& v : b) {
      if (random() % 64 == 0) v = special[random() % special.size()];
    }
    paths.expect_same(
        [&] { return product(a, b, s, std::vector<float>(s.m * s.n, -0.0f), s.n, round % 2); },
        "special values");
  }
}

TEST(TensorKernel, EveryPathGivesTheSameBitsWhereResultsAreTiny) {
  OnEveryPath paths;
  const Shape s{32, 4, 48};
  const auto a = normal_floats(s.k * s.m, 7, 0x1p-63f), b = normal_floats(s.k * s.n, 8, 0x1p-63f);
  paths.expect_same([&] { return product(a, b, s, std::vector<float>(s.m * s.n), s.n, false); },
                    "products around the smallest normal number");
}

TEST(TensorKernel, FlushesSubnormalOperandsAndResults) {
  const std::vector<float> subnormal{0x1p-127f}, large{0x1p100f};
  EXPECT_EQ(bits_of(product(subnormal, large, {1, 1, 1}, {0.0f}, 1, false)[0]), 0u);
  const std::vector<float> small{0x1p-64f};
  EXPECT_EQ(bits_of(product(small, small, {1, 1, 1}, {0.0f}, 1, false)[0]), 0u);
  // A subnormal that lies in PSUM is an operand like any other.
  EXPECT_EQ(bits_of(product({0.0f}, {0.0f}, {1, 1, 1}, {0x1p-130f}, 1, true)[0]), 0u);
}

TEST(TensorKernel, ExplicitFlushingEqualsTheProcessorsFlushing) {
  std::mt19937 random(9);
  const unsigned saved = _mm_getcsr();
  for (int i = 0; i < 200000; ++i) {
    // Products next to 2^-126, where rounding decides whether a result is tiny.
    const float a = std::ldexp(from_bits(0x3F800000u | (random() & 0x7FFFFFu)), -63);
    float b = std::ldexp(1.0f / std::ldexp(a, 63), -63);
    b = from_bits(bits_of(b) + random() % 5 - 2);
    const float c = random() % 2 ? std::ldexp(1.0f, -126 - static_cast<int>(random() % 30)) : 0.0f;
    const float explicit_result = flushed_fma(a, b, -c);
    _mm_setcsr(0x1F80 | 0x8040);
    volatile float va = a, vb = b, vc = -c;
    const float hardware = std::fma(va, vb, vc);
    _mm_setcsr(saved);
    ASSERT_EQ(bits_of(explicit_result), bits_of(hardware)) << std::hexfloat << a << " " << b;
  }
}

TEST(TensorKernel, MakesNanCanonical) {
  const std::vector<float> infinity{INFINITY}, zero{0.0f}, payload{from_bits(0xFFC54321u)};
  EXPECT_EQ(bits_of(product(infinity, zero, {1, 1, 1}, {0.0f}, 1, false)[0]), kNanBits);
  EXPECT_EQ(bits_of(product(payload, zero, {1, 1, 1}, {0.0f}, 1, false)[0]), kNanBits);
}

TEST(TensorKernel, WritesOnlyTheCellsOfTheResult) {
  OnEveryPath paths;
  const Shape s{8, 4, 21};
  const size_t stride = 40;
  const auto a = normal_floats(s.k * s.m, 10), b = normal_floats(s.k * s.n, 11);
  paths.expect_same(
      [&] { return product(a, b, s, std::vector<float>(s.m * stride, 7.0f), stride, false); },
      "strided result");
  const auto result = product(a, b, s, std::vector<float>(s.m * stride, 7.0f), stride, false);
  for (int m = 0; m < s.m; ++m) {
    for (size_t n = s.n; n < stride; ++n) ASSERT_EQ(result[m * stride + n], 7.0f);
  }
}

TEST(TensorKernel, WidensOtherTypesBeforeMultiplying) {
  const Shape s{40, 6, 33};
  const auto a = normal_floats(s.k * s.m, 12), b = normal_floats(s.k * s.n, 13);
  const auto truncated = [](std::vector<float> v, std::vector<uint16_t>* codes) {
    for (float& x : v) {
      codes->push_back(bits_of(x) >> 16);
      x = from_bits(bits_of(x) & 0xFFFF0000u);
    }
    return v;
  };
  std::vector<uint16_t> a16, b16;
  const auto wide_a = truncated(a, &a16), wide_b = truncated(b, &b16);
  auto weights = std::make_unique<Stationary>();
  weights->load({reinterpret_cast<const std::byte*>(a16.data()), s.m * 2, NEURON_DTYPE_BF16}, s.k,
                s.m);
  std::vector<float> found(s.m * s.n);
  multiply(*weights,
           {reinterpret_cast<const std::byte*>(b16.data()), static_cast<ptrdiff_t>(s.n * 2),
            NEURON_DTYPE_BF16},
           s.n, found.data(), s.n, false);
  const auto expected = product(wide_a, wide_b, s, std::vector<float>(s.m * s.n), s.n, false);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
}

// Products of bf16 weights and a moving matrix of bf16 or of fp32.
std::vector<float> bf16_product(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b,
                                Shape s, bool wide_moving, bool accumulate) {
  auto weights = std::make_unique<Stationary>();
  weights->load({reinterpret_cast<const std::byte*>(a.data()), s.m * 2, NEURON_DTYPE_BF16}, s.k,
                s.m);
  std::vector<float> wide;
  for (const uint16_t code : b) wide.push_back(from_bits(uint32_t{code} << 16));
  const RowView narrow{reinterpret_cast<const std::byte*>(b.data()),
                       static_cast<ptrdiff_t>(s.n * 2), NEURON_DTYPE_BF16};
  std::vector<float> psum(s.m * s.n, -0.0f);
  multiply(*weights, wide_moving ? view_of(wide, s.n) : narrow, s.n, psum.data(), s.n, accumulate);
  return psum;
}

TEST(TensorKernel, EveryPathGivesTheSameBitsForBf16OfEveryShapeAndKind) {
  OnEveryPath paths;
  std::mt19937 random(21);
  const struct {
    const char* what;
    uint32_t lowest, exponents;  // of the operands
    bool special;
  } kinds[] = {{"ordinary values", 120, 12, false},
               {"products around the smallest normal number", 58, 12, false},
               {"subnormal operands", 0, 3, false},
               {"every magnitude", 1, 254, false},
               {"infinities and NaN", 100, 60, true}};
  for (const Shape& s : kShapes) {
    for (const auto& kind : kinds) {
      const auto codes = [&](size_t n) {
        std::vector<uint16_t> all(n);
        for (uint16_t& code : all) {
          const uint32_t exponent = kind.lowest + random() % kind.exponents;
          code = static_cast<uint16_t>((random() & 0x807F) | exponent << 7);
          if (kind.special && random() % 97 == 0) code = random() % 2 ? 0xFF80 : 0x7FC1;
        }
        return all;
      };
      const auto a = codes(s.k * s.m), b = codes(s.k * s.n);
      for (const bool wide : {false, true}) {
        paths.expect_same([&] { return bf16_product(a, b, s, wide, s.n % 2 == 0); }, kind.what);
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(TensorKernel, RoundsTf32OperandsToTenBits) {
  const std::vector<float> a{1.0f + 0x1p-11f + 0x1p-20f},
      b{1.0f};  // just above half of the last bit
  auto weights = std::make_unique<Stationary>();
  RowView view = view_of(a, 1);
  view.dtype = NEURON_DTYPE_TF32;
  weights->load(view, 1, 1);
  float found = 0;
  multiply(*weights, view_of(b, 1), 1, &found, 1, false);
  EXPECT_EQ(found, 1.0f + 0x1p-10f);
}

TEST(TensorKernel, ReadsStridedAndBroadcastRows) {
  const Shape s{4, 3, 20};
  std::vector<float> a(s.k * s.m * 2), b(s.k);
  for (size_t i = 0; i < a.size(); ++i) a[i] = i % 2 ? 1e30f : static_cast<float>(i);
  for (int k = 0; k < s.k; ++k) b[k] = static_cast<float>(k + 1);
  auto weights = std::make_unique<Stationary>();
  RowView stationary = view_of(a, 2 * s.m);
  stationary.step = 2;
  weights->load(stationary, s.k, s.m);
  RowView moving = view_of(b, 1);
  moving.step = 0;
  std::vector<float> found(s.m * s.n);
  multiply(*weights, moving, s.n, found.data(), s.n, false);
  for (int m = 0; m < s.m; ++m) {
    for (size_t n = 0; n < s.n; ++n) {
      float expected = 0;
      for (int k = 0; k < s.k; ++k) expected += static_cast<float>(k * 6 + m * 2) * (k + 1);
      ASSERT_EQ(found[m * s.n + n], expected);
    }
  }
}

TEST(TensorKernel, LeavesMxcsrAlone) {
  OnEveryPath paths;
  const Shape s{32, 3, 16};
  const auto a = normal_floats(s.k * s.m, 14), b = normal_floats(s.k * s.n, 15);
  const auto expected = product(a, b, s, std::vector<float>(s.m * s.n), s.n, false);
  paths.expect_same(
      [&] {
        ExpectMxcsrUntouched check;
        return product(a, b, s, std::vector<float>(s.m * s.n), s.n, false);
      },
      "under another rounding mode");
  ExpectMxcsrUntouched check;
  EXPECT_EQ(product(a, b, s, std::vector<float>(s.m * s.n), s.n, false), expected);
}

}  // namespace
}  // namespace neuron::numerics
