// SPDX-License-Identifier: Apache-2.0
// Accesses that meet in distant rounds are those that a comparison of each with each finds; and a
// body of many accesses takes no more than many times one access.
#include "tools/compiler/program_builder/distant_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <random>

namespace neuron::builder {
namespace {

bool meet_nearby(const Region& a, const Region& b) {
  if (a.advance != b.advance || a.motions != b.motions) return false;
  const uint64_t span = std::max(a.end, b.end) - std::min(a.first, b.first);
  return span <= 2 * static_cast<uint64_t>(std::abs(a.advance));
}

std::vector<bool> compare_all(const std::vector<LoopAccess>& accesses, uint32_t rounds) {
  std::vector<bool> far(accesses.size());
  for (size_t a = 0; a < accesses.size(); ++a) {
    const Region& region = accesses[a].region;
    for (const LoopAccess& other : accesses) {
      if (!(accesses[a].write || other.write)) continue;
      if (!region.spanning(rounds).overlaps(other.region.spanning(rounds))) continue;
      if (region.advance != 0 && !meet_nearby(region, other.region)) far[a] = true;
    }
  }
  return far;
}

LoopAccess some_access(std::mt19937& random, int64_t most_advance) {
  const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  LoopAccess access;
  Region& region = access.region;
  access.write = random() % 3 == 0;
  region.space = static_cast<uint8_t>(1 + below(3));
  const bool on_chip = region.space != Region::kHbm;
  region.start = on_chip ? below(4) * 32 : below(3);
  region.parts = on_chip ? 32 * (1 + below(4 - region.start / 32)) : 1;
  region.first = 4000 + below(1000);
  region.end = region.first + 1 + below(random() % 8 == 0 ? 500 : 32);
  region.advance = random() % 2 == 0 ? most_advance : int64_t{below(7)} * 16 - 48;
  if (random() % 4 == 0) {
    region.pitch = 64;
    region.run = 1 + below(40);
    region.end = region.first + 64ull * (1 + below(4)) + region.run;
  }
  if (random() % 6 == 0) {
    region.motions.add({.index = 1 + below(2), .bytes = 64});
    region.above = below(300);
  }
  return access;
}

TEST(DistantRounds, AreFoundAsByComparisonOfEachWithEach) {
  std::mt19937 random(21);
  size_t far = 0, near = 0;
  for (unsigned round = 0; round < 400; ++round) {
    std::vector<LoopAccess> accesses;
    const size_t count = 1 + random() % 24;
    const int64_t most_advance = std::array<int64_t, 3>{64, 600, -300}[random() % 3];
    while (accesses.size() < count) accesses.push_back(some_access(random, most_advance));
    const auto rounds = static_cast<uint32_t>(2 + random() % 6);
    const std::vector<bool> found = meet_in_distant_rounds(accesses, rounds);
    ASSERT_EQ(found, compare_all(accesses, rounds)) << round;
    for (size_t a = 0; a < count; ++a) (found[a] ? far : near) += accesses[a].region.advance != 0;
  }
  EXPECT_GT(far, 200U);
  EXPECT_GT(near, 200U);
}

// 50,000 blocks of one round's way, read and written: each overlaps each in some round, which as
// many comparisons would be a minute.
TEST(DistantRounds, OfManyAccessesThatMoveAlikeTakeNoComparisons) {
  constexpr uint64_t kBlocks = 50'000, kBytes = 64;
  std::vector<LoopAccess> accesses;
  for (uint64_t block = 0; block < kBlocks; ++block) {
    LoopAccess access;
    access.write = block % 2 == 0;
    access.region = {Region::kHbm, 0, 1, block * kBytes, (block + 1) * kBytes, kBlocks * kBytes};
    accesses.push_back(access);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(meet_in_distant_rounds(accesses, 100), std::vector<bool>(kBlocks, false));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace neuron::builder
