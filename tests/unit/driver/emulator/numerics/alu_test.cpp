// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/alu.h"

#include <cstring>

#include "driver/emulator/numerics/alu_scalar.h"
#include "tests/unit/driver/emulator/numerics/numerics_fixture.h"

namespace neuron::numerics {
namespace {

constexpr unsigned kOperations = 64;

float one_result(unsigned op, float a, float b) {
  float out;
  alu(op, &a, &b, &out, 1);
  return out;
}

// Special values against each other, then anything.
void operands(std::vector<float>* a, std::vector<float>* b) {
  const auto special = special_floats();
  for (float x : special) {
    for (float y : special) {
      a->push_back(x);
      b->push_back(y);
    }
  }
  for (float x : any_floats(500, 1)) a->push_back(x);
  for (float x : any_floats(500, 2)) b->push_back(x);
  for (float x : normal_floats(501, 3)) a->push_back(x);
  for (float x : normal_floats(501, 4)) b->push_back(x);
}

TEST(Alu, EveryPathGivesTheSameBits) {
  OnEveryPath paths;
  std::vector<float> a, b;
  operands(&a, &b);
  for (Subnormals subnormals : {Subnormals::kKeep, Subnormals::kFlush}) {
    for (unsigned op = 0; op < kOperations; ++op) {
      paths.expect_same(
          [&] {
            std::vector<float> out(a.size());
            ExpectMxcsrUntouched check;
            alu(op, a.data(), b.data(), out.data(), a.size(), subnormals);
            return out;
          },
          "tensor by tensor");
      for (bool reverse : {false, true}) {
        paths.expect_same(
            [&] {
              std::vector<float> out(a.size());
              ExpectMxcsrUntouched check;
              alu_scalar(op, a.data(), -1.5f, reverse, out.data(), a.size(), subnormals);
              return out;
            },
            "tensor by scalar");
      }
    }
  }
}

TEST(Alu, ComputesWhatTheOperationsNamesSay) {
  struct Case {
    unsigned op;
    float a, b, result;
  };
  for (const Case& c : {Case{NEURON_ALU_ADD, 2, 3, 5},
                        Case{NEURON_ALU_SUB, 2, 3, -1},
                        Case{NEURON_ALU_MUL, 2, 3, 6},
                        Case{NEURON_ALU_MAX, 2, 3, 3},
                        Case{NEURON_ALU_MIN, 2, 3, 2},
                        Case{NEURON_ALU_ABS_MAX, -4, 3, 4},
                        Case{NEURON_ALU_ABS_MIN, -4, -3, 3},
                        Case{NEURON_ALU_DIV, 3, 2, 1.5f},
                        Case{NEURON_ALU_MOD, -7, 4, 1},
                        Case{NEURON_ALU_MOD, 7, -4, -1},
                        Case{NEURON_ALU_MOD, 7.5f, 2, 1.5f},
                        Case{NEURON_ALU_POW, 2, 10, 1024},
                        Case{NEURON_ALU_AVERAGE, 2, 3, 2.5f},
                        Case{NEURON_ALU_EQ, 2, 2, 1},
                        Case{NEURON_ALU_NE, 2, 2, 0},
                        Case{NEURON_ALU_GT, 3, 2, 1},
                        Case{NEURON_ALU_GE, 2, 2, 1},
                        Case{NEURON_ALU_LT, 3, 2, 0},
                        Case{NEURON_ALU_LE, 2, 3, 1},
                        Case{NEURON_ALU_LOGICAL_AND, 2, 0, 0},
                        Case{NEURON_ALU_LOGICAL_OR, 2, 0, 1},
                        Case{NEURON_ALU_LOGICAL_XOR, 2, -1, 0},
                        Case{NEURON_ALU_ABS, -2, 9, 2},
                        Case{NEURON_ALU_SQUARE, -3, 9, 9},
                        Case{NEURON_ALU_RELU, -3, 9, 0},
                        Case{NEURON_ALU_RSQRT, 4, 9, 0.5f},
                        Case{NEURON_ALU_RECIPROCAL, 4, 9, 0.25f},
                        Case{NEURON_ALU_BYPASS, 4, 9, 4}}) {
    EXPECT_EQ(one_result(c.op, c.a, c.b), c.result) << "operation " << c.op;
  }
}

TEST(Alu, ReversedScalarIsTheLeftOperand) {
  const float a[3] = {1, 2, 4};
  float out[3];
  alu_scalar(NEURON_ALU_SUB, a, 10.0f, true, out, 3);
  EXPECT_EQ(out[2], 6.0f);
  alu_scalar(NEURON_ALU_SUB, a, 10.0f, false, out, 3);
  EXPECT_EQ(out[2], -6.0f);
  alu_scalar(NEURON_ALU_POW, a, 2.0f, true, out, 3);
  EXPECT_EQ(out[2], 16.0f);
}

TEST(Alu, NanIsUnorderedTrueAndCanonical) {
  const float payload = from_bits(0xFF812345u);
  for (unsigned op : {NEURON_ALU_ADD, NEURON_ALU_SUB, NEURON_ALU_MUL, NEURON_ALU_DIV,
                      NEURON_ALU_MAX, NEURON_ALU_MIN, NEURON_ALU_ABS_MAX, NEURON_ALU_ABS_MIN,
                      NEURON_ALU_AVERAGE, NEURON_ALU_MOD, NEURON_ALU_POW}) {
    EXPECT_EQ(bits_of(one_result(op, payload, 2.0f)), kNanBits) << op;
    EXPECT_EQ(bits_of(one_result(op, 2.0f, payload)), kNanBits) << op;
  }
  for (unsigned op : {NEURON_ALU_ABS, NEURON_ALU_SQUARE, NEURON_ALU_RELU, NEURON_ALU_RSQRT,
                      NEURON_ALU_RECIPROCAL}) {
    EXPECT_EQ(bits_of(one_result(op, payload, 0.0f)), kNanBits) << op;
  }
  EXPECT_EQ(bits_of(one_result(NEURON_ALU_BYPASS, payload, 0.0f)), 0xFF812345u);
  EXPECT_EQ(bits_of(one_result(NEURON_ALU_SUB, INFINITY, INFINITY)), kNanBits);
  for (unsigned op : {NEURON_ALU_EQ, NEURON_ALU_GT, NEURON_ALU_GE, NEURON_ALU_LT, NEURON_ALU_LE}) {
    EXPECT_EQ(one_result(op, NAN, NAN), 0.0f) << op;
  }
  EXPECT_EQ(one_result(NEURON_ALU_NE, NAN, NAN), 1.0f);
  EXPECT_EQ(one_result(NEURON_ALU_LOGICAL_AND, NAN, 1.0f), 1.0f);
}

TEST(Alu, MaxAndMinOrderTheZeros) {
  EXPECT_FALSE(std::signbit(one_result(NEURON_ALU_MAX, -0.0f, 0.0f)));
  EXPECT_FALSE(std::signbit(one_result(NEURON_ALU_MAX, 0.0f, -0.0f)));
  EXPECT_TRUE(std::signbit(one_result(NEURON_ALU_MIN, -0.0f, 0.0f)));
  EXPECT_TRUE(std::signbit(one_result(NEURON_ALU_MIN, 0.0f, -0.0f)));
}

TEST(Alu, KeepsOrFlushesSubnormalsAsAsked) {
  const float a = 0x1p-130f, b = 0x1p-130f;
  float out;
  alu(NEURON_ALU_ADD, &a, &b, &out, 1, Subnormals::kKeep);
  EXPECT_EQ(out, 0x1p-129f);
  alu(NEURON_ALU_ADD, &a, &b, &out, 1, Subnormals::kFlush);
  EXPECT_EQ(bits_of(out), 0u);
  // Operations that pass an operand through flush it as well.
  alu(NEURON_ALU_MAX, &a, &b, &out, 1, Subnormals::kFlush);
  EXPECT_EQ(bits_of(out), 0u);
  EXPECT_EQ(bits_of(reduce(NEURON_ALU_MAX, &a, 1, -INFINITY, Subnormals::kFlush)), 0u);
}

TEST(Alu, ReducesStrictlyInOrder) {
  // Any other order of this sum gives another value.
  const std::vector<float> in{0x1p24f, 1.0f, 1.0f, -0x1p24f, 1.0f};
  EXPECT_EQ(reduce(NEURON_ALU_ADD, in.data(), in.size(), 0.0f), 1.0f);
  EXPECT_EQ(reduce(NEURON_ALU_SUB, in.data() + 1, in.size() - 1, 10.0f),
            10.0f - 1 - 1 + 0x1p24f - 1);
}

TEST(Alu, ReducesManyRowsAsOneByOneOnEveryPath) {
  OnEveryPath paths;
  const size_t rows = 53, n = 41, stride = 45;
  auto in = normal_floats(rows * stride, 5, 1e3f);
  in[7 * stride + 3] = NAN;
  in[9 * stride + 40] = -INFINITY;
  for (unsigned op = 0; op < kOperations; ++op) {
    if (!alu_is_reducible(op)) continue;
    std::vector<float> expected(rows, reduce_identity(op));
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < n; ++i) expected[r] = one_result(op, expected[r], in[r * stride + i]);
    }
    paths.expect_same(
        [&] {
          std::vector<float> acc(rows, reduce_identity(op));
          reduce_rows(op, in.data(), stride, rows, n, acc.data());
          for (size_t r = 0; r < rows; ++r) {
            EXPECT_EQ(bits_of(acc[r]), bits_of(expected[r])) << op << " row " << r;
          }
          return acc;
        },
        "reduction");
  }
}

TEST(Alu, IdentityLeavesTheFirstElementAlone) {
  for (unsigned op : {NEURON_ALU_ADD, NEURON_ALU_MUL, NEURON_ALU_MAX, NEURON_ALU_MIN,
                      NEURON_ALU_ABS_MAX, NEURON_ALU_ABS_MIN}) {
    for (float x : {0.25f, 7.0f, 1e30f}) EXPECT_EQ(reduce(op, &x, 1, reduce_identity(op)), x) << op;
  }
}

template <typename T>
void check_bits(unsigned op, T a, T b, T expected) {
  T found = 0;
  alu_bits(op, reinterpret_cast<std::byte*>(&a), reinterpret_cast<std::byte*>(&b),
           reinterpret_cast<std::byte*>(&found), sizeof(T), 1);
  EXPECT_EQ(found, expected) << "operation " << op << " of " << sizeof(T) << " bytes";
  found = 0;
  alu_bits_scalar(op, reinterpret_cast<std::byte*>(&b), a, true,
                  reinterpret_cast<std::byte*>(&found), sizeof(T), 1);
  EXPECT_EQ(found, expected);
}

TEST(Alu, BitOperationsWorkOnRawIntegers) {
  check_bits<uint8_t>(NEURON_ALU_AND, 0xF0, 0x3C, 0x30);
  check_bits<uint16_t>(NEURON_ALU_OR, 0xF000, 0x003C, 0xF03C);
  check_bits<uint32_t>(NEURON_ALU_XOR, 0xFFFF0000u, 0x0F0F0F0Fu, 0xF0F00F0Fu);
  check_bits<uint8_t>(NEURON_ALU_NOT, 0x0F, 0x77, 0xF0);
  check_bits<uint8_t>(NEURON_ALU_SHL, 0x81, 1, 0x02);
  check_bits<uint16_t>(NEURON_ALU_SHR_LOGICAL, 0x8000, 15, 1);
  check_bits<uint32_t>(NEURON_ALU_SHR_ARITH, 0x80000000u, 31, 0xFFFFFFFFu);
  check_bits<uint8_t>(NEURON_ALU_SHR_ARITH, 0x40, 2, 0x10);
}

TEST(Alu, ShiftsBeyondTheWidthShiftEverythingOut) {
  check_bits<uint8_t>(NEURON_ALU_SHL, 0xFF, 8, 0);
  check_bits<uint16_t>(NEURON_ALU_SHR_LOGICAL, 0xFFFF, 200, 0);
  check_bits<uint32_t>(NEURON_ALU_SHR_ARITH, 0x80000001u, 0xFFFFFFFFu, 0xFFFFFFFFu);
  check_bits<uint32_t>(NEURON_ALU_SHR_ARITH, 0x70000001u, 32, 0);
}

TEST(Alu, ReducesBits) {
  const uint16_t in[3] = {0xFF0F, 0x0FFF, 0x3FFF};
  const auto* bytes = reinterpret_cast<const std::byte*>(in);
  EXPECT_EQ(reduce_bits(NEURON_ALU_AND, bytes, 2, 3, 0xFFFF), 0x0F0Fu);
  EXPECT_EQ(reduce_bits(NEURON_ALU_OR, bytes, 2, 3, 0), 0xFFFFu);
  EXPECT_EQ(reduce_bits(NEURON_ALU_XOR, bytes, 2, 3, 0), 0xFF0Fu ^ 0x0FFFu ^ 0x3FFFu);
}

TEST(Alu, PowerIsWithinOneUnitOfTheLastPlace) {
  std::mt19937 random(6);
  std::uniform_real_distribution<float> exponent(-8.0f, 8.0f);
  for (int i = 0; i < 100000; ++i) {
    const float x =
        std::ldexp(1.0f + (random() % 4096) / 4096.0f, static_cast<int>(random() % 24) - 12);
    const float y = exponent(random);
    const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
    ASSERT_LE(error_in_ulp(power(x, y), exact), 0.51L) << x << " to the " << y;
  }
}

TEST(Alu, PowerHasTheSpecialValuesOfC) {
  const auto special = special_floats();
  for (float x : special) {
    for (float y :
         {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, 3.0f, -3.0f, 0.5f, INFINITY, -INFINITY, 1e20f}) {
      // A quiet NaN, because the library treats signalling ones apart.
      const float expected = std::pow(std::isnan(x) ? NAN : x, y), found = power(x, y);
      if (std::isnan(expected)) {
        EXPECT_EQ(bits_of(found), kNanBits) << x << " to the " << y;
      } else if (expected == 0 || std::isinf(expected) || expected == 1.0f) {
        EXPECT_EQ(bits_of(found), bits_of(expected)) << x << " to the " << y;
      }
    }
  }
}

TEST(Alu, RemainderIsExact) {
  for (const auto& [x, y] : {std::pair{7.5f, 2.0f},
                             {-7.5f, 2.0f},
                             {1e30f, 3.0f},
                             {0x1p-140f, 0x1p-149f},
                             {1.0f, 0x1.8p-140f},
                             {5.0f, INFINITY},
                             {-0.0f, 1.0f}}) {
    EXPECT_EQ(bits_of(remainder_towards_zero(x, y)), bits_of(std::fmod(x, y))) << x << " " << y;
  }
  const auto a = any_floats(2000, 7), b = any_floats(2000, 8);
  for (size_t i = 0; i < a.size(); ++i) {
    const float expected = std::fmod(a[i], b[i]), found = remainder_towards_zero(a[i], b[i]);
    ASSERT_EQ(bits_of(found), std::isnan(expected) ? kNanBits : bits_of(expected))
        << a[i] << " " << b[i];
  }
}

// The reference is the rule as Python's floor division states it, on double quotients of small
// numbers, and the cases that NumPy documents.
TEST(Alu, ModHasTheSignOfTheDivisor) {
  for (int x = -50; x <= 50; ++x) {
    for (int y = -9; y <= 9; ++y) {
      if (y == 0) continue;
      const double exact = x - y * std::floor(static_cast<double>(x) / y);
      const float found =
          one_result(NEURON_ALU_MOD, static_cast<float>(x) / 4, static_cast<float>(y) / 4);
      EXPECT_EQ(found, exact / 4) << x << " mod " << y;
      EXPECT_EQ(std::signbit(found), y < 0) << x << " mod " << y;
    }
  }
  EXPECT_EQ(one_result(NEURON_ALU_MOD, -1.0f, INFINITY), INFINITY);
  EXPECT_EQ(one_result(NEURON_ALU_MOD, 1.0f, INFINITY), 1.0f);
  EXPECT_EQ(one_result(NEURON_ALU_MOD, -1e-30f, 1.0f), 1.0f) << "rounded once";
  for (const auto& [x, y] : {std::pair{1.0f, 0.0f}, {INFINITY, 2.0f}, {NAN, 1.0f}}) {
    EXPECT_EQ(bits_of(one_result(NEURON_ALU_MOD, x, y)), kNanBits) << x << " mod " << y;
  }
}

}  // namespace
}  // namespace neuron::numerics
