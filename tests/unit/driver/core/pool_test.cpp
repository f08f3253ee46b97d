// SPDX-License-Identifier: Apache-2.0
#include "driver/core/pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "driver/core/hbm.h"

namespace {

constexpr uint64_t kPage = ND_PAGE_SIZE;

struct Pool {
  explicit Pool(uint64_t pages, uint32_t count = 64) : nodes(count) {
    nd_pool_init(&pool, 0x100000, pages * kPage, nodes.data(), count);
  }
  nd_block* take(uint64_t size, uint64_t alignment = 0) {
    nd_block* block = nullptr;
    error = nd_pool_allocate(&pool, size, alignment, &block);
    return block;
  }
  std::vector<nd_block> nodes;
  nd_pool pool;
  int error = 0;
};

TEST(Pool, GivesTheLowestAddressThatFits) {
  Pool p(100);
  nd_block* a = p.take(10 * kPage);
  nd_block* b = p.take(10 * kPage);
  nd_block* c = p.take(10 * kPage);
  EXPECT_EQ(a->start, 0x100000u);
  EXPECT_EQ(b->start, 0x100000 + 10 * kPage);
  nd_pool_free(&p.pool, a);
  nd_pool_free(&p.pool, c);
  EXPECT_EQ(p.take(11 * kPage)->start, 0x100000 + 20 * kPage);
  EXPECT_EQ(p.take(4 * kPage)->start, 0x100000u);
}

TEST(Pool, RoundsUpToPages) {
  Pool p(10);
  EXPECT_EQ(p.take(1)->size, kPage);
  EXPECT_EQ(p.take(kPage + 1)->size, 2 * kPage);
  EXPECT_EQ(p.pool.free_bytes, 7 * kPage);
}

TEST(Pool, AlignsAndKeepsTheGapInFrontUsable) {
  Pool p(1000);
  p.take(kPage);
  nd_block* aligned = p.take(kPage, 64 * kPage);
  ASSERT_NE(aligned, nullptr);
  EXPECT_EQ(aligned->start % (64 * kPage), 0u);
  EXPECT_EQ(p.take(kPage)->start, 0x100000 + kPage);
  EXPECT_EQ(p.take(kPage, 3 * kPage), nullptr);
  EXPECT_EQ(p.error, -ND_EINVAL);
  p.take(kPage, uint64_t{1} << 63);
  EXPECT_EQ(p.error, -ND_ENOMEM);
}

TEST(Pool, ReturnsTheLargestFreeBlockWhenItIsExhausted) {
  Pool p(10);
  nd_block* blocks[10];
  for (nd_block*& block : blocks) block = p.take(kPage);
  EXPECT_EQ(p.take(kPage), nullptr);
  EXPECT_EQ(p.error, -ND_ENOMEM);
  EXPECT_EQ(nd_pool_largest_free(&p.pool), 0u);
  for (int i : {1, 3, 4, 5, 8}) nd_pool_free(&p.pool, blocks[i]);
  EXPECT_EQ(nd_pool_largest_free(&p.pool), 3 * kPage);
  EXPECT_EQ(p.take(4 * kPage), nullptr);
}

TEST(Pool, MergesNeighboursInAnyOrder) {
  for (const auto& order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}}) {
    Pool p(3);
    nd_block* blocks[3];
    for (nd_block*& block : blocks) block = p.take(kPage);
    for (int i : order) nd_pool_free(&p.pool, blocks[i]);
    EXPECT_EQ(nd_pool_largest_free(&p.pool), 3 * kPage);
    EXPECT_EQ(nd_pool_spare(&p.pool), 63u);
  }
}

TEST(Pool, WithoutNodesNothingChanges) {
  Pool p(100, 2);
  nd_block* first = p.take(kPage);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(p.take(kPage), nullptr);
  EXPECT_EQ(p.pool.free_bytes, 99 * kPage);
  std::vector<nd_block> more(4);
  nd_pool_give_nodes(&p.pool, more.data(), 4);
  EXPECT_NE(p.take(kPage), nullptr);
}

TEST(Pool, AFixedPlaceIsGivenOnlyIfAllOfItIsFree) {
  Pool p(100);
  nd_block* block = nullptr;
  EXPECT_EQ(nd_pool_allocate_at(&p.pool, 0x100000 + 50 * kPage, 10 * kPage, &block), 0);
  EXPECT_EQ(nd_pool_allocate_at(&p.pool, 0x100000 + 45 * kPage, 10 * kPage, &block), -ND_ENOMEM);
  EXPECT_EQ(nd_pool_allocate_at(&p.pool, 0x100000 + 95 * kPage, 10 * kPage, &block), -ND_ENOMEM);
  EXPECT_EQ(nd_pool_allocate_at(&p.pool, 0x100001, kPage, &block), -ND_EINVAL);
  EXPECT_EQ(nd_pool_allocate_at(&p.pool, 0x100000 + 40 * kPage, 10 * kPage, &block), 0);
}

TEST(Hbm, SmallRequestsGoToTheSmallPoolAndFallBack) {
  std::vector<nd_block> nodes(64);
  nd_hbm hbm;
  ASSERT_EQ(nd_hbm_init(&hbm, 0, 64 << 20, 16 << 20, 1 << 20, nodes.data(), 64), 0);
  nd_block* block = nullptr;
  ASSERT_EQ(nd_hbm_allocate(&hbm, 512 << 10, 0, &block), 0);
  EXPECT_EQ(block->start, uint64_t{63} << 20);
  ASSERT_EQ(nd_hbm_allocate(&hbm, (512 << 10) + 1, 0, &block), 0);
  EXPECT_EQ(block->start, uint64_t{16} << 20);
  ASSERT_EQ(nd_hbm_allocate(&hbm, 512 << 10, 0, &block), 0);
  ASSERT_EQ(nd_hbm_allocate(&hbm, 512 << 10, 0, &block), 0);
  EXPECT_LT(block->start, uint64_t{63} << 20);
}

TEST(Hbm, TheFirmwaresPartIsNeverGivenOut) {
  std::vector<nd_block> nodes(64);
  nd_hbm hbm;
  ASSERT_EQ(nd_hbm_init(&hbm, 0, 64 << 20, 16 << 20, 0, nodes.data(), 64), 0);
  nd_block* block = nullptr;
  EXPECT_EQ(nd_hbm_allocate(&hbm, 49 << 20, 0, &block), -ND_ENOMEM);
  EXPECT_EQ(nd_hbm_allocate(&hbm, 48 << 20, 0, &block), 0);
  EXPECT_EQ(nd_hbm_init(&hbm, 0, 64 << 20, 65 << 20, 0, nodes.data(), 64), -ND_EINVAL);
}

TEST(Hbm, TheScratchpadShrinksWhenItsLowestPieceGoes) {
  std::vector<nd_block> nodes(64);
  nd_hbm hbm;
  ASSERT_EQ(nd_hbm_init(&hbm, 0, 64 << 20, 16 << 20, 1 << 20, nodes.data(), 64), 0);
  nd_block* pieces[3];
  for (nd_block*& piece : pieces) ASSERT_EQ(nd_hbm_allocate_scratchpad(&hbm, 1 << 20, &piece), 0);
  EXPECT_EQ(pieces[0]->start, uint64_t{62} << 20);
  EXPECT_EQ(pieces[2]->start, uint64_t{60} << 20);
  nd_hbm_free(&hbm, pieces[1]);
  EXPECT_EQ(hbm.scratchpad_low, uint64_t{60} << 20);
  nd_hbm_free(&hbm, pieces[2]);
  EXPECT_EQ(hbm.scratchpad_low, uint64_t{62} << 20);
  nd_hbm_free(&hbm, pieces[0]);
  EXPECT_EQ(hbm.scratchpad_low, uint64_t{63} << 20);
  nd_block* wall = nullptr;
  ASSERT_EQ(nd_pool_allocate_at(&hbm.main, 61 << 20, 1 << 20, &wall), 0);
  ASSERT_EQ(nd_hbm_allocate_scratchpad(&hbm, 1 << 20, &pieces[0]), 0);
  EXPECT_EQ(nd_hbm_allocate_scratchpad(&hbm, 1 << 20, &pieces[1]), -ND_ENOMEM);
}

}  // namespace
