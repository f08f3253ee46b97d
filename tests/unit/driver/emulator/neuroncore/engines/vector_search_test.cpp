// SPDX-License-Identifier: Apache-2.0
// max8, find_index8 and match_replace8.
#include <algorithm>
#include <cmath>
#include <random>

#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

constexpr uint32_t kValues = 0x18000;
constexpr uint32_t kFoundAt = 0x19000;

class VectorSearch : public UnitMachine {
 protected:
  Instruction replace(unsigned n, float imm) {
    Instruction i = make(NEURON_OP_MATCH_REPLACE8, sbuf(1, 0x10000, kF32, n), sbuf(1, 0, kF32, n));
    i.scalar0 = pointer(kValues);
    i.vector.imm = std::bit_cast<uint32_t>(imm);
    return i;
  }
};

TEST_F(VectorSearch, FindsTheEightLargestWithDuplicates) {
  std::mt19937 random(5);
  for (const unsigned n : {8u, 9u, 100u, 9000u, 16384u}) {
    const auto a = sbuf(2, 0, kF32, n), dst = sbuf(2, 0x19000, kF32, 8);
    std::vector<std::vector<float>> rows(2, std::vector<float>(n));
    for (unsigned p = 0; p < 2; ++p) {
      for (float& v : rows[p]) v = static_cast<float>(random() % (n / 2 + 3)) - 7.0f;
      put(a, p, rows[p]);
    }
    dve(make(NEURON_OP_MAX8, dst, a));
    for (unsigned p = 0; p < 2; ++p) {
      std::sort(rows[p].begin(), rows[p].end(), std::greater<>());
      rows[p].resize(8);
      EXPECT_EQ(get(dst, p), rows[p]) << n;
    }
  }
}

TEST_F(VectorSearch, OrdersNanAboveInfinityAndMinusZeroBelowZero) {
  const auto a = sbuf(1, 0, kF32, 8), dst = sbuf(1, kFoundAt, kF32, 8);
  put(a, 0, {-0.0f, INFINITY, NAN, 0.0f, -INFINITY, 1, -1, 2});
  dve(make(NEURON_OP_MAX8, dst, a));
  EXPECT_EQ(get_raw<uint32_t>(dst, 0),
            (std::vector<uint32_t>{0x7FC00000, 0x7F800000, 0x40000000, 0x3F800000, 0, 0x80000000,
                                   0xBF800000, 0xFF800000}));
}

TEST_F(VectorSearch, GivesDuplicatesSuccessivePlacesAndMissingOnesAllOnes) {
  const auto a = sbuf(1, 0, kF32, 10), values = sbuf(1, kValues, kF32, 8);
  put(a, 0, {5, 3, 5, 9, 5, 3, 0, 1, -0.0f, 2});
  put(values, 0, {5, 3, 5, 77, 5, 5, -0.0f, NAN});
  for (const unsigned type : {kU16, kU32}) {
    const auto dst = sbuf(1, kFoundAt, type, 8);
    dve(make(NEURON_OP_FIND_INDEX8, dst, a, values));
    if (type == kU16) {
      EXPECT_EQ(get_raw<uint16_t>(dst, 0),
                (std::vector<uint16_t>{0, 1, 2, 0xFFFF, 4, 0xFFFF, 6, 0xFFFF}));
    } else {
      EXPECT_EQ(get_raw<uint32_t>(dst, 0),
                (std::vector<uint32_t>{0, 1, 2, 0xFFFFFFFF, 4, 0xFFFFFFFF, 6, 0xFFFFFFFF}));
    }
  }
}

TEST_F(VectorSearch, ReplacesFirstOccurrencesLastValueFirst) {
  put(sbuf(1, 0, kF32, 8), 0, {5, 3, 5, 9, 5, 3, 0, 1});
  put(sbuf(1, kValues, kF32, 8), 0, {5, 5, 3, 77, 77, 77, 77, 77});
  Instruction i = replace(8, -100.0f);
  i.scalar1 = pointer(kFoundAt, kU32);
  dve(i);
  EXPECT_EQ(get(sbuf(1, 0x10000, kF32, 8), 0),
            (std::vector<float>{-100, -100, -100, 9, 5, 3, 0, 1}));
  // Value 1 takes the first 5, value 0 the second.
  const uint32_t no = 0xFFFFFFFF;
  EXPECT_EQ(get_raw<uint32_t>(sbuf(1, kFoundAt, kU32, 8), 0),
            (std::vector<uint32_t>{2, 0, 1, no, no, no, no, no}));
}

TEST_F(VectorSearch, ComparesWithTheRowAsItWas) {
  // The replacement equals another value that is looked for; it must not be found.
  put(sbuf(1, 0, kF32, 8), 0, {1, 2, 3, 4, 5, 6, 7, 8});
  put(sbuf(1, kValues, kF32, 8), 0, {8, 4, 99, 99, 99, 99, 99, 99});
  Instruction i = replace(8, 4.0f);
  i.dst = i.src0;  // in place
  dve(i);
  EXPECT_EQ(get(sbuf(1, 0, kF32, 8), 0), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 4}));
}

TEST_F(VectorSearch, GivesTheSortedTopOfARowIn3Rounds) {
  constexpr unsigned kN = 200;
  std::mt19937 random(6);
  std::vector<float> row(kN);
  for (unsigned e = 0; e < kN; ++e) row[e] = static_cast<float>(random() % 1000);
  put(sbuf(1, 0, kF32, kN), 0, row);
  std::vector<float> found;
  for (unsigned round = 0; round < 3; ++round) {
    dve(make(NEURON_OP_MAX8, sbuf(1, kValues, kF32, 8), sbuf(1, 0, kF32, kN)));
    const auto best = get(sbuf(1, kValues, kF32, 8), 0);
    found.insert(found.end(), best.begin(), best.end());
    Instruction i = replace(kN, -INFINITY);
    i.dst = i.src0;
    dve(i);
  }
  std::sort(row.begin(), row.end(), std::greater<>());
  row.resize(24);
  EXPECT_EQ(found, row);
}

}  // namespace
}  // namespace neuron::core
