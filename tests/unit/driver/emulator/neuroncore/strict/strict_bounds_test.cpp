// SPDX-License-Identifier: Apache-2.0
// What strict mode keeps is bounded, whatever a program does, and still orders what it did before.
#include <gtest/gtest.h>

#include <array>

#include "driver/emulator/neuroncore/strict/strict_clocks.h"
#include "driver/emulator/neuroncore/strict/strict_shadow.h"
#include "hw/isa.h"

namespace neuron::core {
namespace {

TEST(StrictBounds, ManyDoorbellsOfABusyQueueShareOneRecordThatMissesNoOrder) {
  StrictClocks clocks;
  constexpr unsigned kDve = NEURON_ENGINE_DVE, kRung = 5000;
  uint64_t last = 0;
  for (unsigned n = 0; n < kRung; ++n) {
    last = clocks.advance(kDve) + 1;
    clocks.ring(3, n == 0, n + 1, kDve, last, {n, kDve});
  }
  StrictClocks::Queue& queue = clocks.queue(3);
  EXPECT_LE(queue.waiting.size(), StrictClocks::kMaxDoorbells);
  clocks.begin_packet(queue, 0);
  EXPECT_FALSE(clocks.ordered(kDve, last, queue.actor));
  clocks.begin_packet(queue, kRung - 1);
  EXPECT_TRUE(queue.waiting.empty());
  EXPECT_TRUE(clocks.ordered(kDve, last, queue.actor));
}

TEST(StrictBounds, AccessesOfCollectedStatesDoNotPileUp) {
  StrictClocks clocks;
  StrictShadow shadow(clocks);
  StrictConflict conflict;
  const auto access_of = [&clocks](unsigned actor) {
    StrictAccess access;
    access.actor = static_cast<uint16_t>(actor);
    access.tick = clocks.advance(actor);
    return access;
  };
  const std::array<StrictSegment, 1> cell{{{0, 1, ~uint64_t{0}}}};
  ASSERT_TRUE(shadow.write(access_of(NEURON_ENGINE_DVE), 0, 1, cell, conflict));
  clocks.raise_floor();
  // Each of 64 queues reads each byte by itself: a list of 4096 readers, copied at each of them.
  for (unsigned byte = 0; byte < 64; ++byte) {
    for (unsigned queue = 0; queue < 64; ++queue) {
      const std::array<StrictSegment, 1> one{{{0, 1, uint64_t{1} << byte}}};
      ASSERT_TRUE(shadow.read(access_of(clocks.queue(queue).actor), 0, 1, one, conflict));
      ASSERT_LT(shadow.accesses(), size_t{1} << 19);
    }
  }
  // None of them is forgotten.
  EXPECT_FALSE(shadow.write(access_of(NEURON_ENGINE_DVE), 0, 1, cell, conflict));
  EXPECT_EQ(conflict.kind, StrictConflict::kRace);
}

}  // namespace
}  // namespace neuron::core
