// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/numerics/random.h"

#include <gtest/gtest.h>

namespace neuron::numerics {
namespace {

using Block = std::array<uint32_t, 4>;

TEST(Random, PhiloxMatchesThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, AWordDependsOnSeedLaneAndPositionOnly) {
  RandomStream stream(1234567890123ull, 17);
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(stream.next(), stream.at(i));
  RandomStream later(1234567890123ull, 17, 47);
  EXPECT_EQ(later.next(), stream.at(47));
  EXPECT_EQ(later.position(), 48u);
  EXPECT_NE(RandomStream(1234567890124ull, 17).next(), stream.at(0));
  EXPECT_NE(RandomStream(1234567890123ull, 18).next(), stream.at(0));
}

}  // namespace
}  // namespace neuron::numerics
