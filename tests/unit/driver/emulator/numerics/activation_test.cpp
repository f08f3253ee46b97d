// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/activation.h"

#include "tests/unit/driver/emulator/numerics/numerics_fixture.h"

namespace neuron::numerics {
namespace {

using Long = long double;

float one(unsigned function, float x, float param = 0.0f) {
  float out;
  activate(function, &x, &out, 1, param);
  return out;
}

Long sigmoid(Long x) { return 1 / (1 + std::exp(-x)); }
Long distribution(Long x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; }
const Long kPi = std::acos(-1.0L);
Long density(Long x) { return std::exp(-x * x / 2) / std::sqrt(2 * kPi); }
Long softplus(Long x) { return std::fmax(x, 0.0L) + std::log1p(std::exp(-std::fabs(x))); }

struct Accuracy {
  unsigned function;
  Long (*exact)(Long);
  float low, high;
  Long ulp;       // allowed error, in units of the last place of the result or
  Long absolute;  // in absolute terms, whichever is larger
};

// Bounds a little above the measured errors, which README.md lists.
const Accuracy kAccuracy[] = {
    {NEURON_ACT_EXP, [](Long x) { return std::exp(x); }, -103.0f, 88.7f, 1.0L, 0},
    {NEURON_ACT_LOG, [](Long x) { return std::log(x); }, 0x1p-64f, 0x1p64f, 1.0L, 0},
    {NEURON_ACT_LOG, [](Long x) { return std::log(x); }, 0.5f, 2.0f, 1.0L, 0},
    {NEURON_ACT_SIGMOID, sigmoid, -87.0f, 90.0f, 2.5L, 0},
    {NEURON_ACT_TANH, [](Long x) { return std::tanh(x); }, -12.0f, 12.0f, 2.5L, 0},
    {NEURON_ACT_ERF, [](Long x) { return std::erf(x); }, -5.0f, 5.0f, 1.5L, 0},
    {NEURON_ACT_ERF_DX, [](Long x) { return 2 / std::sqrt(kPi) * std::exp(-x * x); }, -9.0f, 9.0f,
     3.0L, 0},
    {NEURON_ACT_GELU, [](Long x) { return x * distribution(x); }, -12.0f, 30.0f, 5.0L, 0},
    {NEURON_ACT_GELU_DX, [](Long x) { return distribution(x) + x * density(x); }, -12.0f, 12.0f, 0,
     2e-7L},
    {NEURON_ACT_GELU_TANH,
     [](Long x) { return x * sigmoid(2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)); },
     -12.0f, 12.0f, 2.0L, 5e-7L},
    {NEURON_ACT_GELU_SIGMOID, [](Long x) { return x * sigmoid(1.702L * x); }, -50.0f, 50.0f, 2.0L,
     5e-7L},
    {NEURON_ACT_GELU_SIGMOID_DX,
     [](Long x) {
       const Long s = sigmoid(1.702L * x);
       return s + 1.702L * x * s * (1 - s);
     },
     -40.0f, 40.0f, 0, 3e-7L},
    {NEURON_ACT_SILU, [](Long x) { return x * sigmoid(x); }, -85.0f, 85.0f, 3.0L, 0},
    {NEURON_ACT_SILU_DX,
     [](Long x) {
       const Long s = sigmoid(x);
       return s + x * s * (1 - s);
     },
     -85.0f, 85.0f, 0, 3e-7L},
    {NEURON_ACT_SOFTPLUS, softplus, -87.0f, 87.0f, 2.0L, 0},
    {NEURON_ACT_MISH, [](Long x) { return x * std::tanh(softplus(x)); }, -80.0f, 80.0f, 3.5L, 0},
    {NEURON_ACT_SIN, [](Long x) { return std::sin(x); }, -3.1415926f, 3.1415926f, 0, 5e-7L},
    {NEURON_ACT_SIN, [](Long x) { return std::sin(x); }, -1.5f, 1.5f, 2.0L, 0},
    {NEURON_ACT_ARCTAN, [](Long x) { return std::atan(x); }, -1.5707963f, 1.5707963f, 1.5L, 0},
    {NEURON_ACT_ARCTAN, [](Long x) { return std::atan(x); }, -1000.0f, 1000.0f, 1.5L, 0},
    {NEURON_ACT_SQRT, [](Long x) { return std::sqrt(x); }, 0x1p-116f, 0x1p118f, 0.5L, 0},
    {NEURON_ACT_RSQRT, [](Long x) { return 1 / std::sqrt(x); }, 0x1p-87f, 0x1p97f, 1.5L, 0},
    {NEURON_ACT_RECIPROCAL, [](Long x) { return 1 / x; }, 0x1p-42f, 0x1p42f, 0.5L, 0},
};

// Evenly spaced values and, on each side of zero, evenly spaced bit patterns (a logarithmic scale).
std::vector<float> samples(float low, float high) {
  std::vector<float> in;
  constexpr int kSamples = 20000;
  for (int i = 0; i <= kSamples; ++i) in.push_back(low + (high - low) * (i / float{kSamples}));
  for (float end : {low, high}) {
    const uint32_t first = bits_of(low > 0 ? low : 0x1p-120f), last = bits_of(std::fabs(end));
    for (uint32_t bits = first; bits < last; bits += (last - first) / kSamples + 1) {
      in.push_back(std::copysign(from_bits(bits), end));
    }
  }
  return in;
}

TEST(Activation, IsAsAccurateAsStated) {
  for (const Accuracy& a : kAccuracy) {
    const auto in = samples(a.low, a.high);
    std::vector<float> out(in.size());
    activate(a.function, in.data(), out.data(), in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i] < a.low || in[i] > a.high) continue;
      const Long exact = a.exact(in[i]);
      const bool close =
          std::fabs(out[i] - exact) <= a.absolute || error_in_ulp(out[i], exact) <= a.ulp;
      ASSERT_TRUE(close) << "function " << a.function << " of " << in[i] << ": " << out[i]
                         << " instead of " << exact << ", " << error_in_ulp(out[i], exact)
                         << " ulp";
    }
  }
}

TEST(Activation, EveryPathGivesTheSameBits) {
  OnEveryPath paths;
  auto in = special_floats();
  for (float x : any_floats(2000, 1)) in.push_back(x);
  for (float x : normal_floats(2003, 2, 10.0f)) in.push_back(x);
  for (Subnormals subnormals : {Subnormals::kKeep, Subnormals::kFlush}) {
    for (unsigned function = 0; function < 256; function += function < 32 ? 1 : 32) {
      paths.expect_same(
          [&] {
            std::vector<float> out(in.size());
            ExpectMxcsrUntouched check;
            activate(function, in.data(), out.data(), in.size(), 0.1f, subnormals);
            return out;
          },
          "activation");
    }
  }
}

TEST(Activation, HasExactSpecialValues) {
  struct Case {
    unsigned function;
    float x, result;
  };
  constexpr float kInf = INFINITY;
  for (const Case& c : {Case{NEURON_ACT_EXP, 0, 1},
                        Case{NEURON_ACT_EXP, -0.0f, 1},
                        Case{NEURON_ACT_EXP, -kInf, 0},
                        Case{NEURON_ACT_EXP, kInf, kInf},
                        Case{NEURON_ACT_EXP, 89, kInf},
                        Case{NEURON_ACT_EXP, -3e38f, 0},
                        Case{NEURON_ACT_TANH, kInf, 1},
                        Case{NEURON_ACT_TANH, -kInf, -1},
                        Case{NEURON_ACT_TANH, -0.0f, -0.0f},
                        Case{NEURON_ACT_ERF, kInf, 1},
                        Case{NEURON_ACT_ERF, -kInf, -1},
                        Case{NEURON_ACT_ERF, 0, 0},
                        Case{NEURON_ACT_SIGMOID, 0, 0.5f},
                        Case{NEURON_ACT_SIGMOID, kInf, 1},
                        Case{NEURON_ACT_SIGMOID, -kInf, 0},
                        Case{NEURON_ACT_LOG, 1, 0},
                        Case{NEURON_ACT_LOG, 0, -kInf},
                        Case{NEURON_ACT_LOG, kInf, kInf},
                        Case{NEURON_ACT_SOFTPLUS, kInf, kInf},
                        Case{NEURON_ACT_SOFTPLUS, -kInf, 0},
                        Case{NEURON_ACT_GELU, kInf, kInf},
                        Case{NEURON_ACT_GELU, -kInf, -0.0f},
                        Case{NEURON_ACT_GELU_TANH, -kInf, -0.0f},
                        Case{NEURON_ACT_GELU_SIGMOID, -kInf, -0.0f},
                        Case{NEURON_ACT_SILU, kInf, kInf},
                        Case{NEURON_ACT_SILU, -kInf, -0.0f},
                        Case{NEURON_ACT_MISH, kInf, kInf},
                        Case{NEURON_ACT_MISH, -kInf, -0.0f},
                        Case{NEURON_ACT_GELU_DX, kInf, 1},
                        Case{NEURON_ACT_GELU_DX, -kInf, 0},
                        Case{NEURON_ACT_SILU_DX, kInf, 1},
                        Case{NEURON_ACT_GELU_SIGMOID_DX, kInf, 1},
                        Case{NEURON_ACT_ERF_DX, kInf, 0},
                        Case{NEURON_ACT_RELU, -0.0f, 0},
                        Case{NEURON_ACT_RELU, -kInf, 0},
                        Case{NEURON_ACT_RELU, 2.5f, 2.5f},
                        Case{NEURON_ACT_SIGN, -3, -1},
                        Case{NEURON_ACT_SIGN, -0.0f, 0},
                        Case{NEURON_ACT_SIGN, 0x1p-149f, 1},
                        Case{NEURON_ACT_ABS, -kInf, kInf},
                        Case{NEURON_ACT_SQUARE, -3, 9},
                        Case{NEURON_ACT_SQRT, 9, 3},
                        Case{NEURON_ACT_RSQRT, 16, 0.25f},
                        Case{NEURON_ACT_RECIPROCAL, -8, -0.125f},
                        Case{NEURON_ACT_RECIPROCAL, -0.0f, -kInf},
                        Case{NEURON_ACT_ARCTAN, kInf, 1.57079637f},
                        Case{NEURON_ACT_SIN, 0, 0}}) {
    EXPECT_EQ(bits_of(one(c.function, c.x)), bits_of(c.result))
        << "function " << c.function << " of " << c.x << " is " << one(c.function, c.x);
  }
}

TEST(Activation, SinExtrapolatesThroughThePublishedValue) {
  EXPECT_NEAR(one(NEURON_ACT_SIN, 9.0f), 27.65f, 0.005f);
}

TEST(Activation, PreluScalesNegativeInputsOnly) {
  EXPECT_EQ(one(NEURON_ACT_PRELU, -4.0f, 0.25f), -1.0f);
  EXPECT_EQ(one(NEURON_ACT_PRELU, 4.0f, 0.25f), 4.0f);
  EXPECT_EQ(bits_of(one(NEURON_ACT_PRELU, -1.0f, NAN)), kNanBits);
}

TEST(Activation, NanInGivesCanonicalNanOutExceptThroughCopy) {
  const float payload = from_bits(0xFF812345u);
  for (unsigned function = 0; activation_known(function); ++function) {
    EXPECT_EQ(bits_of(one(function, payload, 0.5f)),
              function == NEURON_ACT_COPY ? 0xFF812345u : kNanBits)
        << function;
  }
  for (unsigned function : {NEURON_ACT_LOG, NEURON_ACT_SQRT, NEURON_ACT_RSQRT}) {
    EXPECT_EQ(bits_of(one(function, -1.0f)), kNanBits) << function;
  }
  EXPECT_EQ(bits_of(one(200, 1.0f)), kNanBits);
  EXPECT_FALSE(activation_known(26));
}

TEST(Activation, WorksInPlace) {
  auto values = normal_floats(100, 3);
  std::vector<float> expected(100);
  activate(NEURON_ACT_TANH, values.data(), expected.data(), 100);
  activate(NEURON_ACT_TANH, values.data(), values.data(), 100);
  EXPECT_EQ(values, expected);
}

TEST(Activation, CountsInputsOutsideTheDocumentedRange) {
  const std::vector<float> in{-4.0f, -3.0f, 0.0f, 3.0f, 4.0f, NAN, INFINITY};
  EXPECT_EQ(count_outside_domain(NEURON_ACT_SIN, in.data(), in.size()), 4u);
  EXPECT_EQ(count_outside_domain(NEURON_ACT_LOG, in.data(), in.size()), 5u);
  EXPECT_EQ(count_outside_domain(NEURON_ACT_RECIPROCAL, in.data(), in.size()), 3u);
  EXPECT_EQ(count_outside_domain(NEURON_ACT_EXP, in.data(), in.size()), 0u);
}

}  // namespace
}  // namespace neuron::numerics
