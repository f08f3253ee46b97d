// SPDX-License-Identifier: Apache-2.0
// bn_stats and bn_aggr against sums in long double.
#include <cmath>
#include <random>

#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

class VectorStatistics : public UnitMachine {
 protected:
  std::vector<float> random_row(size_t n, float offset, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> row(n);
    for (float& v : row) v = offset + static_cast<float>(random() % 20001) / 10000.0f - 1.0f;
    return row;
  }
};

TEST_F(VectorStatistics, SplitsEvenFromOddElements) {
  const auto a = sbuf(1, 0, kF32, 5), dst = sbuf(1, 4096, kF32, 6);
  put(a, 0, {1, 10, 3, 30, 5});
  dve(make(NEURON_OP_BN_STATS, dst, a));
  EXPECT_EQ(get(dst, 0), (std::vector<float>{3, 3, 8, 2, 20, 200}));
}

TEST_F(VectorStatistics, CountsNothingAsZeros) {
  const auto a = sbuf(1, 0, kF32, 1), dst = sbuf(1, 4096, kF32, 6);
  put(a, 0, {7});
  dve(make(NEURON_OP_BN_STATS, dst, a));
  EXPECT_EQ(get(dst, 0), (std::vector<float>{1, 7, 0, 0, 0, 0}));
}

TEST_F(VectorStatistics, AgreeWithLongDoubleForEveryLength) {
  for (const float offset : {0.0f, 100.0f}) {
    for (unsigned n = 1; n <= 512; n += n < 70 ? 1 : 37) {
      const auto a = sbuf(1, 0, kF32, n), dst = sbuf(1, 4096, kF32, 6);
      const auto row = random_row(n, offset, n);
      put(a, 0, row);
      dve(make(NEURON_OP_BN_STATS, dst, a));
      const auto found = get(dst, 0);
      for (unsigned parity = 0; parity < 2; ++parity) {
        long double sum = 0, spread = 0;
        unsigned count = 0;
        for (unsigned e = parity; e < n; e += 2, ++count) sum += row[e];
        const long double mean = count ? sum / count : 0;
        for (unsigned e = parity; e < n; e += 2) spread += (row[e] - mean) * (row[e] - mean);
        ASSERT_EQ(found[3 * parity], static_cast<float>(count));
        ASSERT_NEAR(found[3 * parity + 1], static_cast<double>(mean), 1e-6 * (1 + offset));
        ASSERT_NEAR(found[3 * parity + 2], static_cast<double>(spread), 1e-5 * (1 + spread)) << n;
      }
    }
  }
}

TEST_F(VectorStatistics, CombineToTheMeanAndVarianceOfTheWholeRow) {
  constexpr unsigned kN = 1300, kPieces = 3;  // 512 + 512 + 276
  const auto row = random_row(kN, 3.0f, 9);
  put(sbuf(2, 0, NEURON_DTYPE_F32, kN), 1, row);
  for (unsigned piece = 0; piece < kPieces; ++piece) {
    const unsigned n = piece == 2 ? 276 : 512;
    auto a = sbuf(2, 2048 * piece, kF32, static_cast<int>(n));
    dve(make(NEURON_OP_BN_STATS, sbuf(2, 0x8000 + 24 * piece, kF32, 6), a));
  }
  dve(make(NEURON_OP_BN_AGGR, sbuf(2, 0x9000, kF32, 2), sbuf(2, 0x8000, kF32, 6 * kPieces)));
  long double mean = 0, variance = 0;
  for (const float v : row) mean += v;
  mean /= kN;
  for (const float v : row) variance += (v - mean) * (v - mean);
  variance /= kN;
  const auto found = get(sbuf(2, 0x9000, kF32, 2), 1);
  EXPECT_NEAR(found[0], static_cast<double>(mean), 1e-6);
  EXPECT_NEAR(found[1], static_cast<double>(variance), 1e-6);
}

TEST_F(VectorStatistics, CombineMoreTriplesThanAScratchRowHolds) {
  constexpr int kTriples = 4000;
  std::vector<float> row;
  for (int t = 0; t < kTriples; ++t) row.insert(row.end(), {2.0f, t % 2 ? 3.0f : 5.0f, 2.0f});
  put(sbuf(2, 0, NEURON_DTYPE_BF16, 3 * kTriples), 1, row);
  dve(make(NEURON_OP_BN_AGGR, sbuf(2, 0x9000, kF32, 2),
           sbuf(2, 0, NEURON_DTYPE_BF16, 3 * kTriples)));
  const auto found = get(sbuf(2, 0x9000, kF32, 2), 1);
  EXPECT_NEAR(found[0], 4.0, 1e-6);
  EXPECT_NEAR(found[1], 2.0, 1e-5);  // 1 between the triples and 1 inside them
}

TEST_F(VectorStatistics, OfNothingAreNan) {
  put(sbuf(1, 0, kF32, 3), 0, {0, 0, 0});
  dve(make(NEURON_OP_BN_AGGR, sbuf(1, 256, kF32, 2), sbuf(1, 0, kF32, 3)));
  EXPECT_EQ(get_raw<uint32_t>(sbuf(1, 256, kF32, 2), 0),
            (std::vector<uint32_t>{0x7FC00000, 0x7FC00000}));
}

TEST_F(VectorStatistics, AreNanWhereAnElementIs) {
  put(sbuf(1, 0, kF32, 4), 0, {1, NAN, 3, 4});
  dve(make(NEURON_OP_BN_STATS, sbuf(1, 256, kF32, 6), sbuf(1, 0, kF32, 4)));
  const auto bits = get_raw<uint32_t>(sbuf(1, 256, kF32, 6), 0);
  EXPECT_EQ(std::bit_cast<float>(bits[1]), 2.0f);
  EXPECT_EQ(bits[4], 0x7FC00000u);
  EXPECT_EQ(bits[5], 0x7FC00000u);
}

TEST_F(VectorStatistics, RefuseRowsThatAreTooLongOrNoTriples) {
  Instruction stats = make(NEURON_OP_BN_STATS, sbuf(1, 8192, kF32, 6), sbuf(1, 0, kF32, 513));
  EXPECT_EQ(attempt(NEURON_ENGINE_DVE, stats).code, NEURON_FAULT_OPERAND_SHAPE);
  Instruction aggregate = make(NEURON_OP_BN_AGGR, sbuf(1, 8192, kF32, 2), sbuf(1, 0, kF32, 4));
  EXPECT_EQ(attempt(NEURON_ENGINE_DVE, aggregate).code, NEURON_FAULT_OPERAND_SHAPE);
}

}  // namespace
}  // namespace neuron::core
