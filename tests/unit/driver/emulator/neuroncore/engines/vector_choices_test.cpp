// SPDX-License-Identifier: Apache-2.0
// The answers that the READMEs choose where public documents are silent, one test each.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "driver/emulator/numerics/statistics.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

constexpr unsigned kF32 = NEURON_DTYPE_F32;
constexpr unsigned kI32 = NEURON_DTYPE_I32;
constexpr unsigned kBf16 = NEURON_DTYPE_BF16;
constexpr unsigned kDve = NEURON_ENGINE_DVE;
constexpr unsigned kPool = NEURON_ENGINE_POOL;

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
