// SPDX-License-Identifier: Apache-2.0
// copy_predicated.
#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

class VectorPredicate : public UnitMachine {};

TEST_F(VectorPredicate, CopiesWhereTheMaskSaysSoAndReverses) {
  const auto a = sbuf(40, 0, kF32, 4), dst = sbuf(40, 256, kF32, 4);
  for (const unsigned type : {kU8, unsigned{NEURON_DTYPE_U16}, unsigned{NEURON_DTYPE_U32}}) {
    const auto mask = sbuf(40, 512, type, 4);
    for (const bool invert : {false, true}) {
      for (unsigned p = 0; p < 40; ++p) {
        put(a, p, {1, 2, 3, 4});
        put(dst, p, {-1, -2, -3, -4});
        put(mask, p, {0, 1, 0, 200});
      }
      Instruction i = make(NEURON_OP_COPY_PREDICATED, dst, a, mask);
      i.vector.invert = invert;
      dve(i);
      const std::vector<float> expected =
          invert ? std::vector<float>{1, -2, 3, -4} : std::vector<float>{-1, 2, -3, 4};
      EXPECT_EQ(get(dst, 39), expected);
    }
  }
}

TEST_F(VectorPredicate, SeesAMaskWhoseLowByteIsZero) {
  const auto mask = sbuf(1, 512, NEURON_DTYPE_U32, 2);
  put_raw<uint32_t>(mask, 0, {0x01000000, 0});
  put(sbuf(1, 256, kF32, 2), 0, {7, 7});
  Instruction i = make(NEURON_OP_COPY_PREDICATED, sbuf(1, 256, kF32, 2), {}, mask);
  i.scalar0 = real(3.5f);
  dve(i);
  EXPECT_EQ(get(sbuf(1, 256, kF32, 2), 0), (std::vector<float>{3.5f, 7}));
}

TEST_F(VectorPredicate, TakesOneValuePerPartition) {
  const auto mask = sbuf(3, 512, kU8, 2), dst = sbuf(3, 256, kBf16, 2);
  fill(sbuf(3, 0, kBf16, 1), [](unsigned p, unsigned) { return 10.0f + p; });
  fill(mask, [](unsigned, unsigned e) { return static_cast<float>(e); });
  fill(dst, [](unsigned, unsigned) { return 0.0f; });
  Instruction i = make(NEURON_OP_COPY_PREDICATED, dst, {}, mask);
  i.scalar0 = pointer(0, kBf16);
  dve(i);
  EXPECT_EQ(get(dst, 2), (std::vector<float>{0, 12}));
}

TEST_F(VectorPredicate, LeavesAnAddressThatIsVisitedTwiceWithTheLastCopiedElement) {
  put(sbuf(1, 0, kF32, 3), 0, {1, 2, 3});
  put(sbuf(1, 512, kU8, 3), 0, {1, 1, 0});
  put(sbuf(1, 256, kF32, 1), 0, {9});
  const auto same = tile(NEURON_SPACE_SBUF, 0, 1, 256, kF32, {3}, {0});
  dve(make(NEURON_OP_COPY_PREDICATED, same, sbuf(1, 0, kF32, 3), sbuf(1, 512, kU8, 3)));
  EXPECT_EQ(get(sbuf(1, 256, kF32, 1), 0)[0], 2.0f);
}

TEST_F(VectorPredicate, MovesBits) {
  put_raw<uint32_t>(sbuf(1, 0, kF32, 1), 0, {0xFF812345});
  put(sbuf(1, 512, kU8, 1), 0, {1});
  dve(make(NEURON_OP_COPY_PREDICATED, sbuf(1, 256, kF32, 1), sbuf(1, 0, kF32, 1),
           sbuf(1, 512, kU8, 1)));
  EXPECT_EQ(get_raw<uint32_t>(sbuf(1, 256, kF32, 1), 0)[0], 0xFF812345);
}

}  // namespace
}  // namespace neuron::core
