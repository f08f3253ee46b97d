// SPDX-License-Identifier: Apache-2.0
// The instructions that generation 4 adds to Vector and Activation, against plain C++ in double.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "driver/isa/rules.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"
#include "tests/unit/driver/isa/small_values.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::core {
namespace {

class Generation4 : public UnitMachine {
 protected:
  Generation4() { limits_ = isa::limits_of(4); }

  float accumulator(unsigned engine, unsigned part) {
    const isa::Operand out = sbuf(part + 1, 0x9000, NEURON_DTYPE_F32, 1);
    run(engine, make(NEURON_OP_READ_ACC, out));
    return get(out, part)[0];
  }
};

TEST_F(Generation4, ExponentialSubtractsTheMaximumAndSumsTheRow) {
  constexpr unsigned kParts = 32, kN = 1000;
  const isa::Operand a = sbuf(kParts, 0, NEURON_DTYPE_F32, kN);
  const isa::Operand dst = sbuf(kParts, 0x4000, NEURON_DTYPE_F32, kN);
  fill(a, [](unsigned p, unsigned e) {
    return static_cast<float>((p * 13 + e * 7) % 200) * 0.1F - 9;
  });
  fill(sbuf(kParts, 0x8000, NEURON_DTYPE_F32, 1), [](unsigned p, unsigned) { return 11.0F + p; });
  Instruction i = make(NEURON_OP_EXPONENTIAL, dst, a);
  i.scalar0 = pointer(0x8000);
  i.vector.reduce = NEURON_ALU_ADD;
  i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  dve(i);
  for (unsigned p = 0; p < kParts; ++p) {
    const std::vector<float> x = get(a, p), found = get(dst, p);
    double sum = 0;
    for (unsigned e = 0; e < kN; ++e) {
      const double expected = std::exp(static_cast<double>(x[e] - (11.0F + p)));
      ASSERT_NEAR(found[e], expected, 2e-7 * expected);
      sum += expected;
    }
    EXPECT_NEAR(accumulator(NEURON_ENGINE_DVE, p), sum, 1e-5 * sum);
  }
  // Softmax relies on these.
  const isa::Operand one = sbuf(1, 0, NEURON_DTYPE_F32, 3);
  put(one, 0, {0, -INFINITY, 1});
  Instruction plain = make(NEURON_OP_EXPONENTIAL, one, one);
  dve(plain);
  EXPECT_EQ(get(one, 0)[0], 1.0F);
  EXPECT_EQ(get(one, 0)[1], 0.0F);
}

TEST_F(Generation4, ExponentialMayBeginItsSumWithALoadedValue) {
  const isa::Operand a = sbuf(8, 0, NEURON_DTYPE_F32, 50),
                     dst = sbuf(8, 0x4000, NEURON_DTYPE_BF16, 50);
  fill(a, [](unsigned p, unsigned e) {
    return static_cast<float>(p) * 0.25F - static_cast<float>(e) * 0.125F;
  });
  fill(sbuf(8, 0x8000, NEURON_DTYPE_F32, 1), [](unsigned p, unsigned) { return 100.0F * p; });
  for (const bool column : {false, true}) {
    Instruction i = make(NEURON_OP_EXPONENTIAL, dst, a);
    i.scalar1 = column ? pointer(0x8000) : real(2.5F);
    i.vector.reduce = NEURON_ALU_ADD;
    i.vector.reduce_command = NEURON_REDUCE_LOAD_ACCUMULATE;
    dve(i);
    for (unsigned p = 0; p < 8; ++p) {
      double sum = column ? 100.0 * p : 2.5;
      for (const float x : get(a, p)) sum += std::exp(static_cast<double>(x));
      EXPECT_NEAR(accumulator(NEURON_ENGINE_DVE, p), sum, 1e-5 * sum) << column << ", " << p;
    }
  }
}

TEST_F(Generation4, ActivationDoesTheArithmeticOfTensorScalar) {
  struct Case {
    unsigned op0, op1;
    bool rev0, rev1;
    double (*of)(double x, double a, double b);
  };
  const Case cases[] = {
      {NEURON_ALU_SUB, NEURON_ALU_MUL, true, false,
       [](double x, double a, double b) { return (a - x) * b; }},
      {NEURON_ALU_MAX, NEURON_ALU_SUB, false, true,
       [](double x, double a, double b) { return b - std::fmax(x, a); }},
      {NEURON_ALU_GE, NEURON_ALU_ADD, false, false,
       [](double x, double a, double b) { return (x >= a) + b; }},
      {NEURON_ALU_ABS, NEURON_ALU_MIN, false, false,
       [](double x, double, double b) { return std::fmin(std::fabs(x), b); }},
      {NEURON_ALU_SQUARE, NEURON_ALU_BYPASS, false, false,
       [](double x, double, double) { return x * x; }},
      {NEURON_ALU_ADD, NEURON_ALU_ADD, false, false,
       [](double x, double a, double b) { return x + a + b; }},
      {NEURON_ALU_ADD, NEURON_ALU_DIV, false, false,
       [](double x, double a, double b) { return (x + a) / b; }},
  };
  const isa::Operand a = psum(8, 0, NEURON_DTYPE_F32, 40);
  fill(a,
       [](unsigned p, unsigned e) { return static_cast<float>((p * 5 + e * 3) % 41) * 0.5F - 10; });
  fill(sbuf(8, 0x8000, NEURON_DTYPE_F32, 1),
       [](unsigned p, unsigned) { return p % 2 ? 4.0F : -2.0F; });
  for (const unsigned to : {NEURON_DTYPE_F32, NEURON_DTYPE_BF16}) {
    const isa::Operand dst = sbuf(8, 0x4000, to, 40);
    for (const Case& c : cases) {
      Instruction i = make(NEURON_OP_TENSOR_SCALAR, dst, a);
      i.vector.op0 = static_cast<uint8_t>(c.op0);
      i.vector.op1 = static_cast<uint8_t>(c.op1);
      i.vector.rev0 = c.rev0;
      i.vector.rev1 = c.rev1;
      if (!isa::is_unary_alu(c.op0)) i.scalar0 = real(1.5F);
      if (c.op1 != NEURON_ALU_BYPASS) i.scalar1 = pointer(0x8000);
      run(NEURON_ENGINE_ACTIVATION, i);
      for (unsigned p = 0; p < 8; ++p) {
        const std::vector<float> x = get(a, p), found = get(dst, p);
        for (unsigned e = 0; e < 40; ++e) {
          const double exact = c.of(x[e], 1.5, p % 2 ? 4 : -2);
          // All are exact in fp32, and to the nearest bf16.
          const double off = to == NEURON_DTYPE_F32 ? 0 : std::fabs(exact) * 0x1p-8;
          ASSERT_LE(std::fabs(found[e] - exact), off) << c.op0 << ", " << c.op1 << ": " << x[e];
        }
      }
    }
  }
}

TEST_F(Generation4, Activate2HasEveryPairOfStepsAndReduction) {
  struct Case {
    unsigned pre;
    bool rev0, rev1;
    double (*of)(double, double, double);
  };
  const Case cases[] = {
      {NEURON_PRE_NONE, false, false, [](double x, double, double) { return x; }},
      {NEURON_PRE_MUL, false, false, [](double x, double a, double) { return x * a; }},
      {NEURON_PRE_ADD, true, false, [](double x, double a, double) { return a + x; }},
      {NEURON_PRE_SUB, false, false, [](double x, double a, double) { return x - a; }},
      {NEURON_PRE_SUB, true, false, [](double x, double a, double) { return a - x; }},
      {NEURON_PRE_MUL_ADD, false, false, [](double x, double a, double b) { return x * a + b; }},
      {NEURON_PRE_MUL_SUB, false, false, [](double x, double a, double b) { return x * a - b; }},
      {NEURON_PRE_MUL_SUB, true, true, [](double x, double a, double b) { return b - a * x; }},
  };
  const struct {
    unsigned op;
    double start;
    double (*of)(double, double);
  } reductions[] = {
      {NEURON_ALU_ADD, 0, [](double a, double x) { return a + x; }},
      {NEURON_ALU_MAX, -INFINITY, [](double a, double x) { return std::fmax(a, x); }},
      {NEURON_ALU_MIN, INFINITY, [](double a, double x) { return std::fmin(a, x); }},
      {NEURON_ALU_ABS_MAX, 0, [](double a, double x) { return std::fmax(a, std::fabs(x)); }},
      {NEURON_ALU_ABS_MIN, INFINITY, [](double a, double x) { return std::fmin(a, std::fabs(x)); }},
  };
  constexpr unsigned kParts = 8, kN = 300;
  const isa::Operand a = sbuf(kParts, 0, NEURON_DTYPE_F32, kN);
  const isa::Operand dst = sbuf(kParts, 0x4000, NEURON_DTYPE_F32, kN);
  // Halves and small whole numbers: all results are exact.
  fill(a,
       [](unsigned p, unsigned e) { return static_cast<float>((p * 5 + e * 3) % 41) * 0.5F - 10; });
  fill(sbuf(kParts, 0x8000, NEURON_DTYPE_F32, 1), [](unsigned p, unsigned) { return 3.0F + p; });
  for (const Case& c : cases) {
    for (const auto& r : reductions) {
      Instruction i = make(NEURON_OP_ACTIVATE2, dst, a);
      i.act.function = NEURON_ACT_COPY;
      i.act.pre = static_cast<uint8_t>(c.pre);
      i.act.rev0 = c.rev0;
      i.act.rev1 = c.rev1;
      if (c.pre != NEURON_PRE_NONE) i.scalar0 = real(-1.5F);
      if (c.pre >= NEURON_PRE_MUL_ADD) i.scalar1 = pointer(0x8000);
      i.act.reduce = static_cast<uint8_t>(r.op);
      i.act.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
      run(NEURON_ENGINE_ACTIVATION, i);
      for (unsigned p = 0; p < kParts; ++p) {
        const std::vector<float> x = get(a, p), found = get(dst, p);
        double all = r.start;
        for (unsigned e = 0; e < kN; ++e) {
          const double expected = c.of(x[e], -1.5, 3.0 + p);
          ASSERT_EQ(found[e], expected) << c.pre << ", " << p << ", " << e;
          all = r.of(all, expected);
        }
        EXPECT_EQ(accumulator(NEURON_ENGINE_ACTIVATION, p), all) << c.pre << ", " << r.op;
      }
    }
  }
}

TEST_F(Generation4, Activate2WantsAScalarForEachStep) {
  const isa::Operand a = sbuf(8, 0, NEURON_DTYPE_F32, 4);
  Instruction i = make(NEURON_OP_ACTIVATE2, a, a);
  i.act.pre = NEURON_PRE_MUL_ADD;
  i.scalar0 = real(1);
  EXPECT_EQ(attempt(NEURON_ENGINE_ACTIVATION, i).code, NEURON_FAULT_ILLEGAL_FIELD);
  i.act.pre = NEURON_PRE_MUL;
  i.act.reduce = NEURON_ALU_MUL;
  EXPECT_EQ(attempt(NEURON_ENGINE_ACTIVATION, i).code, NEURON_FAULT_OP_NOT_ALLOWED);
}

struct PublishedLater {
  uint32_t s[6];
  uint32_t next() {
    const uint32_t t = s[0] ^ (s[0] >> 2);
    for (unsigned n = 0; n < 4; ++n) s[n] = s[n + 1];
    s[4] = (s[4] ^ (s[4] << 4)) ^ (t ^ (t << 1));
    s[5] += 362437;
    return s[5] + s[4];
  }
};

TEST_F(Generation4, Rand2IsUniformBetweenItsBoundsFromFourStatesByTurns) {
  const isa::Operand states = sbuf(64, 0, NEURON_DTYPE_U32, 24);
  const isa::Operand dst = sbuf(64, 0x1000, NEURON_DTYPE_F32, 4001);
  std::mt19937 random(7);
  std::vector<std::vector<PublishedLater>> expected(64, std::vector<PublishedLater>(4));
  for (unsigned p = 0; p < 64; ++p) {
    std::vector<uint32_t> words;
    for (PublishedLater& state : expected[p]) {
      for (uint32_t& word : state.s) words.push_back(word = static_cast<uint32_t>(random()));
    }
    put_raw(states, p, words);
  }
  dve(make(NEURON_OP_RAND_SET_STATE, {}, states));
  Instruction i = make(NEURON_OP_RAND2, dst);
  i.scalar0 = real(-2);
  i.scalar1 = real(6);
  dve(i);
  double sum = 0;
  for (unsigned p = 0; p < 64; ++p) {
    const std::vector<float> found = get(dst, p);
    for (unsigned e = 0; e < found.size(); ++e) {
      const double fraction = (expected[p][e % 4].next() >> 8) / 16777216.0;
      ASSERT_NEAR(found[e], -2 + 8 * fraction, 1e-6) << p << ", " << e;
      ASSERT_GE(found[e], -2);
      ASSERT_LE(found[e], 6);
      sum += found[e];
    }
  }
  EXPECT_NEAR(sum / (64 * 4001), 2.0, 0.02);
  // Where the numbers stand can be read, and rng goes on from there.
  const isa::Operand back = sbuf(64, 0x8000, NEURON_DTYPE_U32, 24);
  dve(make(NEURON_OP_RAND_GET_STATE, back));
  EXPECT_EQ(get_raw<uint32_t>(back, 5)[6], expected[5][1].s[0]);
  dve(make(NEURON_OP_RNG, sbuf(64, 0x1000, NEURON_DTYPE_U32, 4)));
  EXPECT_EQ(get_raw<uint32_t>(sbuf(64, 0x1000, NEURON_DTYPE_U32, 4), 5)[2], expected[5][2].next());
}

// The f32 numbers that a seed gives are those of the test above; each type has them rounded once.
TEST_F(Generation4, Rand2RoundsTheSameNumbersIntoEveryType) {
  constexpr int kN = 400;
  const isa::Operand seed = sbuf(1, 0, NEURON_DTYPE_U32, 1);
  const auto drawn = [&](uint8_t type) {
    put_raw(seed, 0, std::vector<uint32_t>{19});
    dve(make(NEURON_OP_SET_RNG_SEED, {}, seed));
    Instruction i = make(NEURON_OP_RAND2, sbuf(64, 0x1000, type, kN));
    i.scalar0 = real(-3);
    i.scalar1 = real(500);  // beyond f8e3 and f8e4, whose infinities count
    i.engines = 1u << NEURON_ENGINE_DVE;
    const bool legal = isa::testing::accepted(i, NEURON_ENGINE_DVE, 4);
    if (legal) dve(i);
    return legal;
  };
  ASSERT_TRUE(drawn(NEURON_DTYPE_F32));
  std::vector<std::vector<float>> wide;
  for (unsigned p = 0; p < 64; ++p) wide.push_back(get(sbuf(64, 0x1000, NEURON_DTYPE_F32, kN), p));
  unsigned types = 0;
  for (const uint8_t type : isa::testing::types_of(4)) {
    if (!drawn(type)) continue;
    ++types;
    for (unsigned p = 0; p < 64; ++p) {
      const std::vector<float> found = get(sbuf(64, 0x1000, type, kN), p);
      for (unsigned e = 0; e < found.size(); ++e) {
        const double expected = isa::testing::rounded_to(type, wide[p][e]);
        ASSERT_TRUE(found[e] == expected || (std::isnan(found[e]) && std::isnan(expected)))
            << isa::dtype_name(type) << ": " << found[e] << " for " << wide[p][e];
      }
    }
  }
  EXPECT_EQ(types, 9U) << "all float types but those of blocks";
}

TEST_F(Generation4, SettingTheSeedSetsTheStates) {
  const isa::Operand words = sbuf(16, 0x100, NEURON_DTYPE_U32, 64);
  const isa::Operand seed = sbuf(1, 0, NEURON_DTYPE_U32, 1);
  std::vector<std::vector<uint32_t>> drawn;
  for (const uint32_t value : {5u, 6u, 5u}) {
    put_raw(seed, 0, std::vector<uint32_t>{value});
    dve(make(NEURON_OP_SET_RNG_SEED, {}, seed));
    dve(make(NEURON_OP_RNG, words));
    drawn.push_back(get_raw<uint32_t>(words, 3));
  }
  EXPECT_EQ(drawn[0], drawn[2]);
  EXPECT_NE(drawn[0], drawn[1]);
}

}  // namespace
}  // namespace neuron::core
