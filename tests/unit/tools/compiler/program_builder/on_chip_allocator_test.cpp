// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/on_chip_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace neuron::builder {
namespace {

using ::testing::HasSubstr;

OnChipAllocator sbuf() { return {NEURON_SPACE_SBUF, NEURON_V2_SBUF_PARTITION_BYTES}; }
OnChipAllocator psum() { return {NEURON_SPACE_PSUM, NEURON_PSUM_PARTITION_BYTES}; }

TEST(OnChipAllocator, StartsTilesWhereTheirPartitionCountAllows) {
  OnChipAllocator allocator = sbuf();
  const uint64_t all = NEURON_V2_SBUF_PARTITION_BYTES;
  EXPECT_EQ(allocator.allocate("a", 20, all)->start, 0U);
  EXPECT_EQ(allocator.allocate("b", 32, all)->start, 32U);
  EXPECT_EQ(allocator.allocate("c", 40, all)->start, 64U);
  EXPECT_FALSE(allocator.allocate("d", 1, 64));
}

TEST(OnChipAllocator, KeepsSmallPsumTilesInOneBank) {
  OnChipAllocator allocator = psum();
  EXPECT_EQ(allocator.allocate("a", 128, 1536)->base, 0U);
  EXPECT_EQ(allocator.allocate("b", 128, 1024)->base, 2048U);
  EXPECT_EQ(allocator.allocate("c", 128, 512)->base, 1536U);
  EXPECT_EQ(allocator.allocate("d", 128, 4096)->base, 4096U);
}

TEST(OnChipAllocator, SaysWhatWasAskedWhatIsFreeAndTheLargestBlock) {
  OnChipAllocator allocator = sbuf();
  const auto first = allocator.allocate("a", 128, 65536);
  ASSERT_TRUE(allocator.allocate("b", 128, 65536));
  allocator.release(first->start, 128, first->base);
  const auto failed = allocator.allocate("weights", 128, 100000);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().status, NRT_RESOURCE);
  EXPECT_THAT(failed.error().sentence, HasSubstr("\"weights\""));
  EXPECT_THAT(failed.error().sentence, HasSubstr("100000 bytes in each of 128 partitions"));
  EXPECT_THAT(failed.error().sentence, HasSubstr("free are 131072 of 196608"));
  EXPECT_THAT(failed.error().sentence, HasSubstr("largest free block has 65536"));
}

TEST(OnChipAllocator, RefusesTilesWithoutPartitionsOrBytes) {
  OnChipAllocator allocator = sbuf();
  EXPECT_EQ(allocator.allocate("a", 0, 64).error().status, NRT_INVALID);
  EXPECT_EQ(allocator.allocate("a", 129, 64).error().status, NRT_INVALID);
  EXPECT_EQ(allocator.allocate("a", 1, 0).error().status, NRT_INVALID);
  EXPECT_EQ(allocator.allocate("a", 1, uint64_t{1} << 40).error().status, NRT_RESOURCE);
}

TEST(OnChipAllocator, NeverHandsOutOverlappingTiles) {
  std::mt19937 random(3);
  OnChipAllocator allocator = psum();
  struct Live {
    uint32_t start, parts, base, bytes;
  };
  std::vector<Live> live;
  for (int round = 0; round < 2000; ++round) {
    if (!live.empty() && random() % 2) {
      const size_t victim = random() % live.size();
      allocator.release(live[victim].start, live[victim].parts, live[victim].base);
      live.erase(live.begin() + static_cast<ptrdiff_t>(victim));
      continue;
    }
    const uint32_t parts = 1 + random() % 128;
    const uint32_t bytes = 1 + random() % 3000;
    const auto place = allocator.allocate("tile", parts, bytes);
    if (!place) continue;
    for (const Live& other : live) {
      const bool apart =
          place->start >= other.start + other.parts || other.start >= place->start + parts ||
          place->base >= other.base + other.bytes || other.base >= place->base + bytes;
      ASSERT_TRUE(apart);
    }
    ASSERT_LE(place->start + parts, 128U);
    ASSERT_LE(place->base + bytes, NEURON_PSUM_PARTITION_BYTES);
    live.push_back({place->start, parts, place->base, bytes});
  }
  for (const Live& tile : live) allocator.release(tile.start, tile.parts, tile.base);
  EXPECT_EQ(allocator.largest_gap(128), NEURON_PSUM_PARTITION_BYTES);
}

}  // namespace
}  // namespace neuron::builder
