// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/heap.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace neuron::ccom {
namespace {

TEST(Heap, JoinsNeighboursWhateverTheOrderOfRelease) {
  for (const auto& order :
       {std::array{0, 1, 2}, std::array{2, 1, 0}, std::array{0, 2, 1}, std::array{1, 0, 2}}) {
    Heap heap(3 * Heap::kPage);
    const uint64_t blocks[] = {*heap.allocate(1), *heap.allocate(4096), *heap.allocate(100)};
    EXPECT_FALSE(heap.allocate(1));
    for (const int i : order) {
      EXPECT_EQ(*heap.release(blocks[i]), Heap::kPage);
    }
    EXPECT_EQ(heap.largest_free(), 3 * Heap::kPage);
    EXPECT_EQ(heap.used(), 0u);
  }
}

TEST(Heap, RefusesWhatItDidNotGive) {
  Heap heap(1 << 20);
  const uint64_t block = *heap.allocate(10000);
  for (const uint64_t wrong : {block + 1, block + 4096, uint64_t{1} << 20, ~uint64_t{0}}) {
    const auto released = heap.release(wrong);
    ASSERT_FALSE(released);
    EXPECT_EQ(released.error().status, CCOM_INVALID);
  }
  EXPECT_TRUE(heap.release(block));
  EXPECT_FALSE(heap.release(block));
}

TEST(Heap, NeverGivesARetiredBlockAgain) {
  Heap heap(3 * Heap::kPage);
  const uint64_t first = *heap.allocate(1), second = *heap.allocate(1);
  ASSERT_TRUE(heap.retire(first));
  EXPECT_FALSE(heap.contains(first, 1));
  EXPECT_EQ(heap.used(), 2 * Heap::kPage);
  EXPECT_FALSE(heap.retire(first));
  EXPECT_FALSE(heap.release(first));
  EXPECT_TRUE(heap.release(second));
  EXPECT_EQ(heap.largest_free(), 2 * Heap::kPage);
  EXPECT_FALSE(heap.allocate(3 * Heap::kPage));
}

TEST(Heap, SaysHowMuchIsFreeWhenItIsFull) {
  Heap heap(1 << 20);
  ASSERT_TRUE(heap.allocate(512 << 10));
  for (const uint64_t bytes : {uint64_t{513} << 10, ~uint64_t{0}, ~uint64_t{0} - 4095}) {
    const auto refused = heap.allocate(bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, CCOM_RESOURCE);
    EXPECT_NE(refused.error().sentence.find("524288"), std::string::npos);
  }
}

TEST(Heap, NeverHandsOutABlockTwice) {
  Heap heap(256 * Heap::kPage);
  std::map<uint64_t, uint64_t> mine;
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      const uint64_t bytes = random() % (20 * Heap::kPage);
      const auto block = heap.allocate(bytes);
      if (block) {
        const auto after = mine.lower_bound(*block);
        ASSERT_TRUE(after == mine.end() || *block + bytes <= after->first);
        ASSERT_TRUE(after == mine.begin() ||
                    std::prev(after)->first + std::prev(after)->second <= *block);
        mine[*block] = bytes;
      }
    } else if (!mine.empty()) {
      const auto at = std::next(mine.begin(), static_cast<ptrdiff_t>(random() % mine.size()));
      ASSERT_TRUE(heap.release(at->first));
      mine.erase(at);
    }
  }
  for (const auto& [block, bytes] : mine) {
    ASSERT_TRUE(heap.release(block));
  }
  EXPECT_EQ(heap.largest_free(), 256 * Heap::kPage);
}

}  // namespace
}  // namespace neuron::ccom
