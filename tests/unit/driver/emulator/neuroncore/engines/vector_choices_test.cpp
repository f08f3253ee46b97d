// SPDX-License-Identifier: Apache-2.0
// The answers that the READMEs choose where public documents are silent, one test each.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "driver/emulator/numerics/statistics.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

class Choices : public UnitMachine {};

// The order of sums of the statistics, spelled out with one float at a time.
TEST_F(Choices, StatisticsSumInThirtyTwoChains) {
  std::mt19937 random(4);
  for (const size_t n : {1u, 31u, 32u, 33u, 100u, 511u, 512u}) {
    std::vector<float> x(n);
    for (float& v : x) v = static_cast<float>(random()) * 0x1p-30f - 1.7f;
    const auto fold = [](float* chain) {
      for (size_t width = 16; width >= 2; width /= 2) {
        for (size_t q = 0; q < width; ++q) chain[q] += chain[q + width];
      }
    };
    float sums[32] = {}, squares[32] = {};
    for (size_t k = 0; k < n; ++k) sums[k % 32] += x[k];
    fold(sums);
    const float count[2] = {static_cast<float>((n + 1) / 2), static_cast<float>(n / 2)};
    float mean[2];
    for (int parity = 0; parity < 2; ++parity) {
      mean[parity] = count[parity] > 0 ? sums[parity] / count[parity] : 0;
    }
    for (size_t k = 0; k < n; ++k) {
      const float away = x[k] - mean[k % 2];
      squares[k % 32] = std::fma(away, away, squares[k % 32]);
    }
    fold(squares);
    float found[6];
    numerics::parity_statistics(x.data(), n, found);
    const float expected[6] = {count[0], mean[0], squares[0], count[1], mean[1], squares[1]};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(found[i], expected[i]) << "value " << i << " of " << n;
  }
}

TEST_F(Choices, StatisticsCombineInAscendingOrder) {
  const float t[9] = {3, 1.1f, 0.7f, 5, -2.3f, 0.11f, 2, 9.7f, 1.3f};
  float total = 0, weighted = 0, spread = 0;
  for (int k = 0; k < 3; ++k) {
    total += t[3 * k];
    weighted += t[3 * k] * t[3 * k + 1];
  }
  const float mean = weighted / total;
  for (int k = 0; k < 3; ++k) {
    const float away = t[3 * k + 1] - mean;
    const float square = away * away;
    const float part = t[3 * k] * square;
    spread += t[3 * k + 2] + part;
  }
  float found[2];
  numerics::combine_statistics(t, 3, found);
  EXPECT_EQ(found[0], mean);
  EXPECT_EQ(found[1], spread / total);
}

TEST_F(Choices, StatisticsOfInfinityAreNanWhereTheyHaveNoValue) {
  put(sbuf(1, 0, kF32, 3), 0, {INFINITY, 1, 2});
  dve(make(NEURON_OP_BN_STATS, sbuf(1, 256, kF32, 6), sbuf(1, 0, kF32, 3)));
  const auto found = get(sbuf(1, 256, kF32, 6), 0);
  EXPECT_EQ(found[1], INFINITY);
  EXPECT_TRUE(std::isnan(found[2]));
  EXPECT_EQ(found[4], 1.0f);
}

TEST_F(Choices, MaxAndMinDoNotDependOnTheOrder) {
  std::mt19937 random(8);
  std::vector<float> row(200);
  for (float& v : row) v = static_cast<float>(random() % 100) - 50.0f;
  row[20] = row[90] = -0.0f;
  for (const unsigned op : {NEURON_ALU_MAX, NEURON_ALU_MIN}) {
    Instruction i = make(NEURON_OP_TENSOR_REDUCE, sbuf(1, 4096, kF32, 1), sbuf(1, 0, kF32, 200));
    i.vector.reduce = static_cast<uint8_t>(op);
    i.vector.axes = 1;
    put(i.src0, 0, row);
    dve(i);
    EXPECT_EQ(get(i.dst, 0)[0], op == NEURON_ALU_MAX ? *std::max_element(row.begin(), row.end())
                                                     : *std::min_element(row.begin(), row.end()));
    auto with_nan = row;
    with_nan[77] = std::bit_cast<float>(0xFFC01234u);
    put(i.src0, 0, with_nan);
    dve(i);
    EXPECT_EQ(get_raw<uint32_t>(i.dst, 0)[0], 0x7FC00000u);
    put(i.src0, 0, std::vector<float>(200, -0.0f));
    put(sbuf(1, 4 * 150, kF32, 1), 0, {0.0f});
    dve(i);
    EXPECT_EQ(std::signbit(get(i.dst, 0)[0]), op == NEURON_ALU_MIN);
  }
}

TEST_F(Choices, PoolComputesThirtyTwoBitIntegersExactlyAndVectorInFp32) {
  const auto a = sbuf(1, 0, kI32, 2), b = sbuf(1, 64, kI32, 2), dst = sbuf(1, 128, kI32, 2);
  put_raw<int32_t>(a, 0, {(1 << 24) + 1, INT32_MAX});
  put_raw<int32_t>(b, 0, {2, 1});
  Instruction add = make(NEURON_OP_TENSOR_TENSOR, dst, a, b);
  add.vector.op0 = NEURON_ALU_ADD;
  run(kPool, add);
  EXPECT_EQ(get_raw<int32_t>(dst, 0), (std::vector<int32_t>{(1 << 24) + 3, INT32_MIN}));
  run(kDve, add);
  EXPECT_EQ(get_raw<int32_t>(dst, 0), (std::vector<int32_t>{(1 << 24) + 2, INT32_MAX}));
}

// What mod of 32-bit integers must be: found by stepping, without a division.
int64_t stepped_mod(int64_t x, int64_t y) {
  if (y == 0) return 0;
  while (x != 0 && (x < 0) != (y < 0)) x += y;
  while (std::abs(x) >= std::abs(y)) x -= y;
  return x;
}

TEST_F(Choices, QuotientsMeansAndRemaindersOfTensorsAreTheNearestOfVectorAndPool) {
  const auto a = sbuf(1, 0, kF32, 6), b = sbuf(1, 64, kF32, 6), dst = sbuf(1, 128, kF32, 6);
  put(a, 0, {7, -7, 7.5F, 1, -1e-30F, 3});
  put(b, 0, {4, 4, -2, 3, 1, 0});
  for (const unsigned engine : {kDve, kPool}) {
    const auto of = [&](unsigned op) {
      Instruction i = make(NEURON_OP_TENSOR_TENSOR, dst, a, b);
      i.vector.op0 = static_cast<uint8_t>(op);
      run(engine, i);
      return get(dst, 0);
    };
    const auto quotient = of(NEURON_ALU_DIV), mean = of(NEURON_ALU_AVERAGE),
               rest = of(NEURON_ALU_MOD);
    EXPECT_EQ(quotient, (std::vector<float>{1.75F, -1.75F, -3.75F, 1.0F / 3, -1e-30F, INFINITY}));
    EXPECT_EQ(mean, (std::vector<float>{5.5F, -1.5F, 2.75F, 2, 0.5F, 1.5F}));
    EXPECT_EQ(std::vector<float>(rest.begin(), rest.begin() + 5),
              (std::vector<float>{3, 1, -0.5F, 1, 1}));
    EXPECT_TRUE(std::isnan(rest[5]));
  }
  // A scalar on either side, and two steps.
  Instruction two = make(NEURON_OP_TENSOR_SCALAR, dst, a);
  two.vector.op0 = NEURON_ALU_DIV;
  two.vector.rev0 = true;
  two.scalar0 = real(21);
  two.vector.op1 = NEURON_ALU_MOD;
  two.scalar1 = real(2);
  dve(two);
  const auto found = get(dst, 0);
  EXPECT_EQ(found[0], 1);
  EXPECT_EQ(found[1], 1);
  EXPECT_EQ(found[2], std::fmod(21 / 7.5F, 2.0F));
  EXPECT_EQ(found[5], 1);
}

TEST_F(Choices, ModOf32BitIntegersIsExactOnPool) {
  const std::vector<int32_t> x = {17,        -17,       17, -17, 16777217,
                                  -16777217, INT32_MIN, 5,  0,   INT32_MIN};
  const std::vector<int32_t> y = {5, 5, -5, -5, 33554432, 33554432, -1073741824, 0, -3, 2147483647};
  const int n = static_cast<int>(x.size());
  const auto a = sbuf(1, 0, kI32, n), b = sbuf(1, 64, kI32, n), dst = sbuf(1, 128, kI32, n);
  put_raw<int32_t>(a, 0, x);
  put_raw<int32_t>(b, 0, y);
  Instruction i = make(NEURON_OP_TENSOR_TENSOR, dst, a, b);
  i.vector.op0 = NEURON_ALU_MOD;
  run(kPool, i);
  const auto found = get_raw<int32_t>(dst, 0);
  for (size_t e = 0; e < x.size(); ++e) {
    EXPECT_EQ(found[e], stepped_mod(x[e], y[e])) << x[e] << " mod " << y[e];
  }
  for (isa::Operand* o : {&i.dst, &i.src0, &i.src1}) o->dtype = NEURON_DTYPE_U32;
  put_raw<uint32_t>(i.src0, 0, {4294967295U, 7, 0, 9, 1, 1, 1, 1, 1, 1});
  put_raw<uint32_t>(i.src1, 0, {10, 4294967290U, 3, 0, 1, 1, 1, 1, 1, 1});
  run(kPool, i);
  const auto whole = get_raw<uint32_t>(i.dst, 0);
  EXPECT_EQ(std::vector<uint32_t>(whole.begin(), whole.begin() + 4),
            (std::vector<uint32_t>{5, 7, 0, 0}));
}

// The accumulators begin as s1 says, an immediate or a column, and add up what follows.
TEST_F(Choices, LoadReduceBeginsWithTheInitialValueOfEachPartition) {
  const auto a = sbuf(4, 0, kF32, 3), dst = sbuf(4, 128, kF32, 3), out = sbuf(4, 512, kF32, 1);
  fill(a, [](unsigned p, unsigned e) { return static_cast<float>(10 * p + e); });
  fill(sbuf(4, 256, kF32, 1), [](unsigned p, unsigned) { return 1000.0F * p; });
  const struct {
    unsigned op;
    float (*of)(float start, float x);
  } reductions[] = {{NEURON_ALU_ADD, [](float s, float x) { return s + x; }},
                    {NEURON_ALU_MUL, [](float s, float x) { return s * x; }},
                    {NEURON_ALU_MAX, [](float s, float x) { return std::max(s, x); }},
                    {NEURON_ALU_MIN, [](float s, float x) { return std::min(s, x); }}};
  for (const auto& r : reductions) {
    for (const bool column : {false, true}) {
      Instruction i = make(NEURON_OP_TENSOR_SCALAR_REDUCE, dst, a);
      i.vector.op0 = NEURON_ALU_ADD;
      i.scalar0 = real(0.5F);
      i.scalar1 = column ? pointer(256) : real(-7);
      i.vector.reduce = static_cast<uint8_t>(r.op);
      i.vector.reduce_command = NEURON_REDUCE_LOAD_ACCUMULATE;
      dve(i);
      i.scalar1 = {};
      i.vector.reduce_command = NEURON_REDUCE_ACCUMULATE;
      dve(i);
      dve(make(NEURON_OP_READ_ACC, out));
      for (unsigned p = 0; p < 4; ++p) {
        float expected = column ? 1000.0F * static_cast<float>(p) : -7.0F;
        for (int e = 0; e < 6; ++e) {
          expected = r.of(expected, static_cast<float>(10 * p) + static_cast<float>(e % 3) + 0.5F);
        }
        EXPECT_EQ(get(out, p)[0], expected) << r.op << ", " << column << ", " << p;
      }
    }
  }
}

TEST_F(Choices, PoolHasPowersAndReciprocalRoots) {
  const auto a = sbuf(1, 0, kF32, 3), b = sbuf(1, 64, kF32, 3), dst = sbuf(1, 128, kF32, 3);
  put(a, 0, {2, 9, 4});
  put(b, 0, {10, 0.5f, -1});
  Instruction power = make(NEURON_OP_TENSOR_TENSOR, dst, a, b);
  power.vector.op0 = NEURON_ALU_POW;
  run(kPool, power);
  EXPECT_EQ(get(dst, 0), (std::vector<float>{1024, 3, 0.25f}));
  EXPECT_EQ(attempt(kDve, power).code, NEURON_FAULT_OP_NOT_ALLOWED);
  Instruction root = make(NEURON_OP_TENSOR_SCALAR, dst, a);
  root.vector.op0 = NEURON_ALU_RSQRT;
  run(kPool, root);
  EXPECT_EQ(get(dst, 0)[2], 0.5f);
  EXPECT_EQ(attempt(kDve, root).code, NEURON_FAULT_OP_NOT_ALLOWED);
}

TEST_F(Choices, ReplacementsAndImmediatesAreConverted) {
  put(sbuf(1, 0, kBf16, 8), 0, {1, 2, 3, 4, 5, 6, 7, 8});
  put(sbuf(1, 64, kBf16, 8), 0, {8, 8, 8, 8, 8, 8, 8, 8});
  Instruction i = make(NEURON_OP_MATCH_REPLACE8, sbuf(1, 128, kBf16, 8), sbuf(1, 0, kBf16, 8));
  i.scalar0 = pointer(64, kBf16);
  i.vector.imm = std::bit_cast<uint32_t>(1.0f + 0x1p-9f);
  dve(i);
  EXPECT_EQ(get(i.dst, 0), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 1}));
  put(sbuf(1, 256, NEURON_DTYPE_U8, 1), 0, {1});
  Instruction copy =
      make(NEURON_OP_COPY_PREDICATED, sbuf(1, 128, kBf16, 1), {}, sbuf(1, 256, NEURON_DTYPE_U8, 1));
  copy.scalar0 = real(3.0f + 0x1p-9f);
  dve(copy);
  EXPECT_EQ(get(copy.dst, 0)[0], 3.0f);
}

TEST_F(Choices, ANanProbabilityDropsNothing) {
  put(sbuf(1, 0, kF32, 4), 0, {1, 2, 3, 4});
  Instruction i = make(NEURON_OP_DROPOUT, sbuf(1, 64, kF32, 4), sbuf(1, 0, kF32, 4));
  i.scalar0 = real(NAN);
  dve(i);
  EXPECT_EQ(get(i.dst, 0), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Choices, OtherInstructionsLeaveTheAccumulatorsOfVectorAlone) {
  const auto a = sbuf(2, 0, kF32, 4);
  fill(a, [](unsigned, unsigned e) { return 1.0f + e; });
  Instruction sum = make(NEURON_OP_TENSOR_SCALAR_REDUCE, sbuf(2, 64, kF32, 4), a);
  sum.vector.op0 = NEURON_ALU_MUL;
  sum.scalar0 = real(1.0f);
  sum.vector.reduce = NEURON_ALU_ADD;
  sum.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  dve(sum);
  dve(make(NEURON_OP_TENSOR_COPY, sbuf(2, 64, kF32, 4), a));
  dve(make(NEURON_OP_READ_ACC, sbuf(2, 128, kF32, 1)));
  EXPECT_EQ(get(sbuf(2, 128, kF32, 1), 1)[0], 10.0f);
}

TEST_F(Choices, AccumulatorsSumBeforeTheResultIsRounded) {
  const auto a = sbuf(1, 0, kF32, 2);
  put(a, 0, {1.0f + 0x1p-10f, 1.0f});
  Instruction sum = make(NEURON_OP_TENSOR_SCALAR_REDUCE, sbuf(1, 64, kBf16, 2), a);
  sum.vector.op0 = NEURON_ALU_MUL;
  sum.scalar0 = real(1.0f);
  sum.vector.reduce = NEURON_ALU_ADD;
  sum.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
  dve(sum);
  dve(make(NEURON_OP_READ_ACC, sbuf(1, 128, kF32, 1)));
  EXPECT_EQ(get(sbuf(1, 128, kF32, 1), 0)[0], 2.0f + 0x1p-10f);
  EXPECT_EQ(get(sbuf(1, 64, kBf16, 2), 0)[0], 1.0f);
}

TEST_F(Choices, WordsInBulkAreTheWordsOfTheStream) {
  for (const uint64_t position : {uint64_t{0}, uint64_t{3}, uint64_t{0x3FFFFFFE0}}) {
    numerics::RandomStream one(77, 5, position), many(77, 5, position);
    std::vector<uint32_t> words(301);
    many.fill(words.data(), words.size());
    for (const uint32_t word : words) ASSERT_EQ(word, one.next()) << position;
    EXPECT_EQ(many.position(), one.position());
  }
}

}  // namespace
}  // namespace neuron::core
