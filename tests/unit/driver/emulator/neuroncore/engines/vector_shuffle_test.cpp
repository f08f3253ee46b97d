// SPDX-License-Identifier: Apache-2.0
// Moves between the partitions of a quadrant.
#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

class VectorShuffle : public UnitMachine {
 protected:
  static float value(unsigned p, unsigned e) { return 1000.0f * p + e; }
};

TEST_F(VectorShuffle, MovesRowsWithinEachQuadrantAndKeepsRowsOf255) {
  const auto a = sbuf(128, 0, kF32, 5), dst = sbuf(128, 4096, kF32, 5);
  fill(a, value);
  fill(dst, [](unsigned, unsigned) { return -1.0f; });
  Instruction i = make(NEURON_OP_STREAM_SHUFFLE, dst, a);
  for (unsigned r = 0; r < 32; ++r) i.shuffle[r] = static_cast<uint8_t>(31 - r);
  i.shuffle[7] = NEURON_SHUFFLE_KEEP;
  dve(i);
  for (unsigned p = 0; p < 128; ++p) {
    const unsigned r = p % 32;
    for (unsigned e = 0; e < 5; ++e) {
      EXPECT_EQ(get(dst, p)[e], r == 7 ? -1.0f : value(p - r + 31 - r, e)) << p;
    }
  }
}

TEST_F(VectorShuffle, BroadcastsOneRowInPlace) {
  const auto a = tile(kSbuf, 32, 32, 0, kU8, {300});
  for (unsigned p = 0; p < 32; ++p) put_raw(a, p, std::vector<uint8_t>(300, uint8_t(p + 1)));
  Instruction i = make(NEURON_OP_STREAM_SHUFFLE, a, a);
  i.shuffle.fill(9);
  dve(i);
  for (unsigned p = 0; p < 32; ++p) {
    EXPECT_EQ(get_raw<uint8_t>(a, p), std::vector<uint8_t>(300, 10));
  }
}

TEST_F(VectorShuffle, ReadsRowsOfTheQuadrantBeyondItsPartitionCount) {
  const auto all = tile(kSbuf, 64, 32, 0, kF32, {2});
  fill(all, value);
  const auto a = tile(kSbuf, 64, 3, 0, kF32, {2});
  const auto dst = tile(kSbuf, 96, 3, 512, kF32, {2});
  Instruction i = make(NEURON_OP_STREAM_SHUFFLE, dst, a);
  i.shuffle.fill(30);
  dve(i);
  EXPECT_EQ(get(dst, 2), (std::vector<float>{30000, 30001}));
}

TEST_F(VectorShuffle, TransposesBlocksWhereTheyStand) {
  const auto a = sbuf(64, 0, kU16, 96), dst = sbuf(64, 4096, kU16, 96);
  for (unsigned p = 0; p < 64; ++p) {
    std::vector<uint16_t> row(96);
    for (unsigned e = 0; e < 96; ++e) row[e] = static_cast<uint16_t>(256 * p + e);
    put_raw(a, p, row);
  }
  dve(make(NEURON_OP_TRANSPOSE32, dst, a));
  for (unsigned p = 0; p < 64; ++p) {
    const auto row = get_raw<uint16_t>(dst, p);
    for (unsigned e = 0; e < 96; ++e) {
      const unsigned from_p = p / 32 * 32 + e % 32, from_e = e / 32 * 32 + p % 32;
      ASSERT_EQ(row[e], 256 * from_p + from_e) << p << "," << e;
    }
  }
}

TEST_F(VectorShuffle, TransposesAPartialBlockAndInPlace) {
  const auto a = sbuf(20, 0, kF32, 7), dst = sbuf(7, 4096, kF32, 20);
  fill(a, value);
  dve(make(NEURON_OP_TRANSPOSE32, dst, a));
  for (unsigned p = 0; p < 7; ++p) {
    for (unsigned e = 0; e < 20; ++e) EXPECT_EQ(get(dst, p)[e], value(e, p));
  }
  const auto square = sbuf(32, 0, kF32, 32);
  fill(square, value);
  dve(make(NEURON_OP_TRANSPOSE32, square, square));
  for (unsigned p = 0; p < 32; ++p) EXPECT_EQ(get(square, p)[3], value(3, p));
}

TEST_F(VectorShuffle, KeepsNanPayloads) {
  const auto a = sbuf(1, 0, kF32, 1), dst = sbuf(1, 64, kF32, 1);
  put_raw<uint32_t>(a, 0, {0xFF812345});
  dve(make(NEURON_OP_TRANSPOSE32, dst, a));
  EXPECT_EQ(get_raw<uint32_t>(dst, 0)[0], 0xFF812345);
}

}  // namespace
}  // namespace neuron::core
