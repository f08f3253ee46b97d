// SPDX-License-Identifier: Apache-2.0
// Every bf16 and f16 value through every activation function and ALU operation against long double,
// and every pair of f8 values and of 8-bit integers through the basic operations against an exact
// result rounded once. On the path of this host; that the others have the same bits for the same
// inputs is in tests/unit/driver/emulator/numerics/every_input_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "driver/emulator/numerics/activation.h"
#include "driver/emulator/numerics/alu.h"
#include "driver/emulator/numerics/dtype.h"
#include "driver/isa/instruction.h"

namespace neuron::numerics {
namespace {

using Long = long double;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Long kPi = 3.14159265358979323846264338327950288L;

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

// Every bf16 and every f16 number, worked out from the bits; fp32 has them all.
std::vector<float> every_16_bit_value() {
  std::vector<float> values(65536);
  for (uint32_t code = 0; code < 65536; ++code) values[code] = std::bit_cast<float>(code << 16);
  for (uint32_t code = 0; code < 65536; ++code) {
    const int exponent = static_cast<int>(code >> 10 & 31);
    const float fraction = static_cast<float>(code & 1023) / 1024;
    float size = std::ldexp(exponent == 0 ? fraction : 1 + fraction, std::max(exponent, 1) - 15);
    if (exponent == 31) size = fraction == 0 ? kInfinity : NAN;
    values.push_back((code >> 15) != 0 ? -size : size);
  }
  return values;
}

// Distance from the exact value in units of the last place of an fp32 of that size.
Long error_in_ulp(float found, Long exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(found - exact) / std::ldexp(1.0L, std::max(exponent - 24, -149));
}

// Agreement within the bounds; overflow of fp32 is infinity.
bool close(float found, Long exact, Long ulp, Long absolute) {
  if (std::isnan(exact)) return bits_of(found) == 0x7FC00000u;
  const Long overflow = std::ldexp(2.0L - std::ldexp(1.0L, -24), 127);
  if (std::fabs(exact) >= overflow) return found == (exact > 0 ? kInfinity : -kInfinity);
  if (std::isinf(found)) {  // only where the bound reaches beyond the largest number
    return std::fabs(exact) > 0x1.fffffp127L && std::signbit(found) == std::signbit(exact) &&
           ulp > 0.51L;
  }
  return std::fabs(found - exact) <= absolute || error_in_ulp(found, exact) <= ulp;
}

Long phi(Long x) { return std::exp(-x * x / 2) / std::sqrt(2 * kPi); }
Long distribution(Long x) { return std::erfc(-x / std::sqrt(2.0L)) / 2; }
Long sigmoid(Long x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
// x * weight, with the limit 0 where the weight has vanished.
Long weighted(Long x, Long weight) { return weight == 0 ? 0 : x * weight; }
Long silu_dx(Long x, Long scale) {
  const Long y = x * scale;
  return sigmoid(y) + weighted(y, sigmoid(y) * sigmoid(-y));
}
Long softplus(Long x) { return std::max(x, 0.0L) + std::log1p(std::exp(-std::fabs(x))); }

struct Function {
  unsigned code;
  std::function<Long(Long)> exact;
  Long ulp, absolute;                        // either bound is enough
  float low = -kInfinity, high = kInfinity;  // inputs that are compared
};

const Function kFunctions[] = {
    {NEURON_ACT_COPY, [](Long x) { return x; }, 0, 0},
    {NEURON_ACT_SQUARE, [](Long x) { return x * x; }, 0.5L, 0},
    {NEURON_ACT_SIGMOID, sigmoid, 2.5L, 1e-38L},
    {NEURON_ACT_RELU, [](Long x) { return x > 0 ? x : 0; }, 0, 0},
    {NEURON_ACT_PRELU, [](Long x) { return x >= 0 ? x : x * 0.25L; }, 0, 0},
    {NEURON_ACT_GELU, [](Long x) { return weighted(x, distribution(x)); }, 5, 1e-31L},
    {NEURON_ACT_GELU_DX,
     [](Long x) { return std::isinf(x) ? distribution(x) : distribution(x) + x * phi(x); }, 3,
     3e-7L},
    {NEURON_ACT_GELU_TANH,
     [](Long x) {
       return weighted(x, sigmoid(2 * std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x)));
     },
     3, 6e-7L},
    {NEURON_ACT_GELU_SIGMOID, [](Long x) { return weighted(x, sigmoid(1.702L * x)); }, 3, 6e-7L},
    {NEURON_ACT_GELU_SIGMOID_DX, [](Long x) { return silu_dx(x, 1.702L); }, 3, 4e-7L},
    {NEURON_ACT_SILU, [](Long x) { return weighted(x, sigmoid(x)); }, 3.5L, 1e-36L},
    {NEURON_ACT_SILU_DX, [](Long x) { return silu_dx(x, 1); }, 3, 4e-7L},
    {NEURON_ACT_TANH, [](Long x) { return std::tanh(x); }, 2.5L, 0},
    {NEURON_ACT_SOFTPLUS, softplus, 2.5L, 1e-37L},
    {NEURON_ACT_MISH, [](Long x) { return weighted(x, std::tanh(softplus(x))); }, 4, 1e-33L},
    {NEURON_ACT_ERF, [](Long x) { return std::erf(x); }, 1.5L, 0},
    {NEURON_ACT_ERF_DX, [](Long x) { return 2 / std::sqrt(kPi) * std::exp(-x * x); }, 3.5L, 1e-36L},
    {NEURON_ACT_EXP, [](Long x) { return std::exp(x); }, 1.1L, 0},
    {NEURON_ACT_SIGN, [](Long x) { return static_cast<Long>((x > 0) - (x < 0)); }, 0, 0},
    {NEURON_ACT_ABS, [](Long x) { return std::fabs(x); }, 0, 0},
    {NEURON_ACT_LOG, [](Long x) { return x < 0 ? NAN : std::log(x); }, 1, 0},
    {NEURON_ACT_SIN, [](Long x) { return std::sin(x); }, 2, 4e-7L, -3.140625f, 3.140625f},
    {NEURON_ACT_ARCTAN, [](Long x) { return std::atan(x); }, 1.5L, 0},
    {NEURON_ACT_SQRT, [](Long x) { return x < 0 ? NAN : std::sqrt(x); }, 0.5L, 0},
    {NEURON_ACT_RSQRT, [](Long x) { return x < 0 ? NAN : 1 / std::sqrt(x); }, 1.5L, 0},
    {NEURON_ACT_RECIPROCAL, [](Long x) { return 1 / x; }, 0.5001L, 0},
};

TEST(NumericsExhaustive, ActivationsOfEvery16BitValueStayWithinTheirBounds) {
  ASSERT_EQ(std::size(kFunctions), NEURON_ACT_RECIPROCAL + 1u);
  const auto in = every_16_bit_value();
  std::vector<float> out(in.size());
  for (const Function& f : kFunctions) {
    activate(f.code, in.data(), out.data(), in.size(), 0.25f);
    size_t wrong = 0;
    for (size_t i = 0; i < in.size() && wrong < 5; ++i) {
      const float x = in[i];
      if (std::isnan(x)) {
        const bool kept = f.code == NEURON_ACT_COPY && bits_of(out[i]) == bits_of(x);
        EXPECT_TRUE(kept || bits_of(out[i]) == 0x7FC00000u) << isa::activation_name(f.code);
        continue;
      }
      if (x < f.low || x > f.high) continue;
      const Long exact = f.exact(x);
      if (close(out[i], exact, f.ulp, f.absolute)) continue;
      ++wrong;
      ADD_FAILURE() << isa::activation_name(f.code) << "(" << x << ") = " << out[i]
                    << " instead of " << static_cast<double>(exact) << ", "
                    << static_cast<double>(error_in_ulp(out[i], exact)) << " ulp";
    }
  }
}

// What a result must be; NaN stands for the canonical NaN.
Long exact_of(unsigned op, Long a, Long b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  const auto truth = [](Long x) { return std::isnan(x) || x != 0; };
  // The larger one of a tie of zeros is +0, the smaller one -0.
  const auto larger = [&](Long x, Long y) {
    return nan ? NAN : x == y ? (std::signbit(x) ? y : x) : std::max(x, y);
  };
  const auto smaller = [&](Long x, Long y) {
    return nan ? NAN : x == y ? (std::signbit(x) ? x : y) : std::min(x, y);
  };
  switch (op) {
    case NEURON_ALU_ADD:
      return a + b;
    case NEURON_ALU_SUB:
      return a - b;
    case NEURON_ALU_MUL:
      return a * b;
    case NEURON_ALU_MAX:
      return larger(a, b);
    case NEURON_ALU_MIN:
      return smaller(a, b);
    case NEURON_ALU_ABS_MAX:
      return larger(std::fabs(a), std::fabs(b));
    case NEURON_ALU_ABS_MIN:
      return smaller(std::fabs(a), std::fabs(b));
    case NEURON_ALU_POW:
      return std::pow(a, b);
    case NEURON_ALU_EQ:
      return a == b;
    case NEURON_ALU_NE:
      return a != b;
    case NEURON_ALU_GT:
      return a > b;
    case NEURON_ALU_GE:
      return a >= b;
    case NEURON_ALU_LT:
      return a < b;
    case NEURON_ALU_LE:
      return a <= b;
    case NEURON_ALU_LOGICAL_AND:
      return truth(a) && truth(b);
    case NEURON_ALU_LOGICAL_OR:
      return truth(a) || truth(b);
    case NEURON_ALU_LOGICAL_XOR:
      return truth(a) != truth(b);
    case NEURON_ALU_ABS:
      return std::fabs(a);
    case NEURON_ALU_SQUARE:
      return a * a;
    case NEURON_ALU_RELU:
      return std::isnan(a) ? NAN : a > 0 ? a : 0;
    case NEURON_ALU_RSQRT:
      return a < 0 ? NAN : 1 / std::sqrt(a);
    default:
      return 1 / a;
  }
}

constexpr unsigned kBinary[] = {
    NEURON_ALU_ADD, NEURON_ALU_SUB,        NEURON_ALU_MUL,         NEURON_ALU_MAX,
    NEURON_ALU_MIN, NEURON_ALU_ABS_MAX,    NEURON_ALU_ABS_MIN,     NEURON_ALU_EQ,
    NEURON_ALU_NE,  NEURON_ALU_GT,         NEURON_ALU_GE,          NEURON_ALU_LT,
    NEURON_ALU_LE,  NEURON_ALU_LOGICAL_OR, NEURON_ALU_LOGICAL_AND, NEURON_ALU_LOGICAL_XOR,
    NEURON_ALU_POW};
constexpr unsigned kUnary[] = {NEURON_ALU_ABS, NEURON_ALU_SQUARE, NEURON_ALU_RELU, NEURON_ALU_RSQRT,
                               NEURON_ALU_RECIPROCAL};

Long bound_of(unsigned op) { return op == NEURON_ALU_RSQRT ? 1.5L : 0.5001L; }

void check(unsigned op, const std::vector<float>& a, float b, const std::vector<float>& found) {
  size_t wrong = 0;
  for (size_t i = 0; i < a.size() && wrong < 5; ++i) {
    const Long exact = exact_of(op, a[i], b);
    const bool zero = exact == 0 && found[i] == 0;
    // -0 counts, except of rsqrt and pow, whose zeros have a rule of their own in alu_test.
    const bool same = zero ? std::signbit(found[i]) == std::signbit(exact) || op == NEURON_ALU_POW
                           : close(found[i], exact, bound_of(op), 0);
    if (same) continue;
    ++wrong;
    ADD_FAILURE() << isa::alu_name(op) << "(" << a[i] << ", " << b << ") = " << found[i]
                  << " instead of " << static_cast<double>(exact);
  }
}

TEST(NumericsExhaustive, OperationsOnEvery16BitValueAreRoundedOnce) {
  const auto a = every_16_bit_value();
  std::vector<float> found(a.size());
  for (const unsigned op : kUnary) {
    alu_scalar(op, a.data(), 0.0f, false, found.data(), a.size());
    check(op, a, 0.0f, found);
  }
  const float seconds[] = {0.0f,      -0.0f,    1.0f,       -1.0f,  0x1.8p-1f, -2.5f,      3.0f,
                           0x1p-133f, 0x1p-60f, 0x1.fep90f, 200.0f, kInfinity, -kInfinity, NAN};
  for (const unsigned op : kBinary) {
    for (const float b : seconds) {
      if (op == NEURON_ALU_POW && (b == 0x1.fep90f || b == 0x1p-133f)) continue;
      alu_scalar(op, a.data(), b, false, found.data(), a.size());
      check(op, a, b, found);
    }
  }
}

TEST(NumericsExhaustive, RemaindersOfEvery16BitValueAreExact) {
  const auto a = every_16_bit_value();
  std::vector<float> found(a.size());
  for (const float b : {1.0f, -3.0f, 0x1.fep20f, 0x1p-140f}) {
    alu_scalar(NEURON_ALU_MOD, a.data(), b, false, found.data(), a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      const float truncated = std::fmod(a[i], b);
      const bool moves = truncated != 0 && std::signbit(truncated) != std::signbit(b);
      const float exact = truncated == 0 ? std::copysign(0.0f, b)
                          : moves        ? truncated + b
                                         : truncated;
      ASSERT_TRUE(std::isnan(exact) ? bits_of(found[i]) == 0x7FC00000u
                                    : bits_of(found[i]) == bits_of(exact))
          << a[i] << " mod " << b;
    }
  }
}

// Exact in double, rounded to fp32, rounded to the type: the two roundings that the engine makes.
TEST(NumericsExhaustive, EveryPairOfF8ValuesGivesTheRoundedExactResult) {
  std::vector<std::byte> codes(256);
  for (unsigned c = 0; c < 256; ++c) codes[c] = std::byte{static_cast<uint8_t>(c)};
  for (const unsigned dtype :
       {NEURON_DTYPE_F8E3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5, NEURON_DTYPE_F8E4FN}) {
    std::vector<float> values(256), a(65536), b(65536), out(65536);
    widen(dtype, codes.data(), 1, values.data(), 256);
    for (size_t i = 0; i < 65536; ++i) {
      a[i] = values[i / 256];
      b[i] = values[i % 256];
    }
    for (const unsigned op :
         {NEURON_ALU_ADD, NEURON_ALU_SUB, NEURON_ALU_MUL, NEURON_ALU_MAX, NEURON_ALU_MIN}) {
      alu(op, a.data(), b.data(), out.data(), 65536);
      std::vector<std::byte> found(65536);
      narrow(dtype, out.data(), found.data(), 1, 65536);
      for (size_t i = 0; i < 65536; ++i) {
        const auto exact = static_cast<double>(exact_of(op, a[i], b[i]));  // exact: 34 bits
        const float rounded =
            std::isnan(exact) ? std::bit_cast<float>(0x7FC00000u) : static_cast<float>(exact);
        ASSERT_EQ(bits_of(out[i]), bits_of(rounded))
            << isa::dtype_name(dtype) << " " << isa::alu_name(op) << " " << a[i] << " " << b[i];
        // The nearest value of the type, found by looking at all of them.
        if (op != NEURON_ALU_ADD && op != NEURON_ALU_MUL) continue;
        if (!std::isfinite(rounded)) continue;
        const float written = values[static_cast<uint8_t>(found[i])];
        if (!std::isfinite(written)) continue;
        const auto code = static_cast<unsigned>(found[i]);
        for (const unsigned next : {code - 1, code + 1}) {
          if (next > 255 || (next ^ code) & 0x80 || !std::isfinite(values[next])) continue;
          const double away = std::fabs(double{written} - rounded);
          const double other = std::fabs(double{values[next]} - rounded);
          ASSERT_TRUE(away < other || (away == other && code % 2 == 0))
              << isa::dtype_name(dtype) << ": " << rounded << " became " << written;
        }
      }
    }
  }
}

// In integers: the exact result, clamped to the type. Division is not among them, nor is what gives
// fractions.
TEST(NumericsExhaustive, EveryPairOf8BitIntegersGivesTheClampedExactResult) {
  for (const bool is_signed : {true, false}) {
    const unsigned dtype = is_signed ? NEURON_DTYPE_I8 : NEURON_DTYPE_U8;
    const int low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    const auto number = [&](size_t code) {
      return is_signed ? static_cast<int>(static_cast<int8_t>(code)) : static_cast<int>(code);
    };
    std::vector<std::byte> codes(256), found(65536);
    for (unsigned c = 0; c < 256; ++c) codes[c] = std::byte{static_cast<uint8_t>(c)};
    std::vector<float> values(256), a(65536), b(65536), out(65536);
    widen(dtype, codes.data(), 1, values.data(), 256);
    for (size_t i = 0; i < 65536; ++i) {
      a[i] = values[i / 256];
      b[i] = values[i % 256];
    }
    const auto check = [&](unsigned op, auto&& exact) {
      alu(op, a.data(), b.data(), out.data(), out.size());
      narrow(dtype, out.data(), found.data(), 1, out.size());
      for (size_t i = 0; i < 65536; ++i) {
        const int expected = std::clamp(exact(number(i / 256), number(i % 256)), low, high);
        ASSERT_EQ(number(static_cast<uint8_t>(found[i])), expected)
            << isa::dtype_name(dtype) << " " << isa::alu_name(op) << " " << a[i] << " " << b[i];
      }
    };
    check(NEURON_ALU_ADD, [](int x, int y) { return x + y; });
    check(NEURON_ALU_SUB, [](int x, int y) { return x - y; });
    check(NEURON_ALU_MUL, [](int x, int y) { return x * y; });
    check(NEURON_ALU_MAX, [](int x, int y) { return std::max(x, y); });
    check(NEURON_ALU_MIN, [](int x, int y) { return std::min(x, y); });
    check(NEURON_ALU_ABS_MAX, [](int x, int y) { return std::max(std::abs(x), std::abs(y)); });
    check(NEURON_ALU_ABS_MIN, [](int x, int y) { return std::min(std::abs(x), std::abs(y)); });
    check(NEURON_ALU_EQ, [](int x, int y) { return static_cast<int>(x == y); });
    check(NEURON_ALU_NE, [](int x, int y) { return static_cast<int>(x != y); });
    check(NEURON_ALU_GT, [](int x, int y) { return static_cast<int>(x > y); });
    check(NEURON_ALU_GE, [](int x, int y) { return static_cast<int>(x >= y); });
    check(NEURON_ALU_LT, [](int x, int y) { return static_cast<int>(x < y); });
    check(NEURON_ALU_LE, [](int x, int y) { return static_cast<int>(x <= y); });
    check(NEURON_ALU_LOGICAL_AND, [](int x, int y) { return static_cast<int>(x && y); });
    check(NEURON_ALU_LOGICAL_OR, [](int x, int y) { return static_cast<int>(x || y); });
    check(NEURON_ALU_LOGICAL_XOR, [](int x, int y) { return static_cast<int>(!x != !y); });
    check(NEURON_ALU_SQUARE, [](int x, int) { return x * x; });
    check(NEURON_ALU_ABS, [](int x, int) { return std::abs(x); });
    check(NEURON_ALU_RELU, [](int x, int) { return std::max(x, 0); });
  }
}

}  // namespace
}  // namespace neuron::numerics
