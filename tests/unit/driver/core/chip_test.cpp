// SPDX-License-Identifier: Apache-2.0
// The tables of the chip generations against the numbers of the public address maps.
#include "driver/core/chip.h"

#include <gtest/gtest.h>

#include "driver/core/queue.h"

namespace {

TEST(ChipTable, KnowsTheGenerationOfEachPciDevice) {
  EXPECT_EQ(nd_chip_for_device(0x7164), &nd_chip_v2);
  EXPECT_EQ(nd_chip_for_device(0x7264), &nd_chip_v2);
  EXPECT_EQ(nd_chip_for_device(0x7364), &nd_chip_v3);
  for (const uint16_t device : {0x7064, 0x7065, 0x7066, 0x7067}) {
    EXPECT_EQ(nd_chip_for_device(device), &nd_chip_v1);
  }
  EXPECT_EQ(nd_chip_for_device(0x7564), &nd_chip_v4);
  EXPECT_EQ(nd_chip_for_device(0x7565), &nd_chip_v4);
  EXPECT_EQ(nd_chip_for_device(0x7063), nullptr);
  EXPECT_EQ(nd_chip_for_device(0x7068), nullptr);
}

TEST(ChipTable, PlacesTheEnginesOfGeneration3InTheirFourGroups) {
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 0), 0x82000000u);
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 31), 0x83F00000u);
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 32), 0x94000000u);
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 64), 0xA2000000u);
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 127), 0xB5F00000u);
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 128), 0x06800000u);
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 129), 0x06900000u);
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 130), 0x46800000u);
  EXPECT_EQ(nd_chip_udma(&nd_chip_v3, 131), 0x46900000u);
  EXPECT_EQ(nd_chip_sdma(&nd_chip_v3, 0), 0x82040000u);
}

TEST(ChipTable, SendsHostCopiesOfTwoCoresOfGeneration3ThroughOneEngine) {
  for (uint32_t core = 0; core < 8; ++core) {
    uint32_t engine = 0, queue = 0;
    nd_queue_host_copy(&nd_chip_v3, core, &engine, &queue);
    EXPECT_EQ(engine, 128 + core / 2);
    EXPECT_EQ(queue, core % 2);
    nd_queue_host_copy(&nd_chip_v2, core % 2, &engine, &queue);
    EXPECT_EQ(engine, 32 + core % 2);
    EXPECT_EQ(queue, 0u);
  }
}

TEST(ChipTable, FindsTheStackAndTheBar4OffsetOfAnAddress) {
  EXPECT_EQ(nd_chip_hbm_base(&nd_chip_v3, 1), 0x4000000000u);
  EXPECT_EQ(nd_chip_hbm_base(&nd_chip_v3, 2), 0x800000000000u);
  EXPECT_EQ(nd_chip_hbm_base(&nd_chip_v3, 3), 0x804000000000u);
  EXPECT_EQ(nd_chip_hbm_of(&nd_chip_v3, 0x804000000000u), 3u);
  EXPECT_EQ(nd_chip_hbm_of(&nd_chip_v3, 0x600000000u), 4u) << "behind the 24 GiB of stack 0";
  EXPECT_EQ(nd_chip_bar4_offset(&nd_chip_v3, 0x804000000010u, nd_chip_v3.hbm_window),
            0x3000000010u);
  EXPECT_EQ(nd_chip_bar4_offset(&nd_chip_v2, 0x1000000010u, nd_chip_v2.hbm_window), 0x400000010u);
}

// Public driver 2.25: the map of generation 3, 36 GiB a stack.
TEST(ChipTable, OfGeneration4IsThatOfGeneration3WithLargerStacks) {
  EXPECT_EQ(nd_chip_v4.hbm_bytes, uint64_t{36} << 30);
  EXPECT_EQ(nd_chip_hbm_of(&nd_chip_v4, 0x8FFFFFFFFu), 0u);
  EXPECT_EQ(nd_chip_hbm_of(&nd_chip_v4, 0x900000000u), 4u) << "behind the 36 GiB of stack 0";
  EXPECT_EQ(nd_chip_hbm_of(&nd_chip_v4, 0x8048FFFFFFFFu), 3u);
  EXPECT_EQ(nd_chip_bar4_offset(&nd_chip_v4, 0x804000000010u, nd_chip_v4.hbm_window),
            0x3000000010u);
  for (uint32_t engine = 0; engine < nd_chip_v4.dma_engines; ++engine) {
    EXPECT_EQ(nd_chip_udma(&nd_chip_v4, engine), nd_chip_udma(&nd_chip_v3, engine));
  }
  for (uint32_t core = 0; core < nd_chip_v4.cores; ++core) {
    EXPECT_EQ(nd_chip_core_address(&nd_chip_v4, core), nd_chip_core_address(&nd_chip_v3, core));
    EXPECT_EQ(nd_chip_physical_core(&nd_chip_v4, 5, core),
              nd_chip_physical_core(&nd_chip_v3, 5, core));
  }
  EXPECT_EQ(nd_chip_v4.min_interface, 10u);
  EXPECT_EQ(nd_chip_v4.max_interface, 11u);
  EXPECT_TRUE(nd_chip_v4.is_switched);
}

// Public driver: the logical number XOR 6 before the look into the map. That of device 0 then is
// that of device 4, its mirror image.
TEST(ChipTable, HasAMapForDiesThatAreTurnedRound) {
  for (uint32_t core = 0; core < nd_chip_v3.cores; ++core) {
    EXPECT_EQ(nd_chip_turned_core(&nd_chip_v3, 5, core),
              nd_chip_physical_core(&nd_chip_v3, 5, core ^ 6));
    EXPECT_EQ(nd_chip_turned_core(&nd_chip_v3, 0, core),
              nd_chip_physical_core(&nd_chip_v3, 4, core));
  }
  EXPECT_EQ(nd_chip_turned_core(&nd_chip_v3, 0, 8), 8u) << "there is none";
  EXPECT_EQ(nd_chip_turned_core(&nd_chip_v2, 0, 1), 1u);
}

TEST(ChipTable, TellsHostAddressesFromTheSecondDie) {
  EXPECT_TRUE(nd_chip_is_host(&nd_chip_v3, 0x400000001000u));
  EXPECT_FALSE(nd_chip_is_host(&nd_chip_v3, 0x804000000000u));
  EXPECT_FALSE(nd_chip_is_host(&nd_chip_v3, 0xC00000000000u));
}

TEST(ChipTable, ResetsACoreWithWhatBelongsToIt) {
  EXPECT_EQ(nd_chip_reset_map(&nd_chip_v2, 1), 0x701u);
  EXPECT_EQ(nd_chip_reset_map(&nd_chip_v2, 2), 0x3802u);
  EXPECT_EQ(nd_chip_reset_map(&nd_chip_v3, 1), 0x10101u);
  EXPECT_EQ(nd_chip_reset_map(&nd_chip_v3, 0xFF), 0xFFFFFFu);
}

TEST(ChipTable, PlacesCoresAndTheirNotificationBlocks) {
  EXPECT_EQ(nd_chip_core_window(&nd_chip_v3, 7), 0xEC000000u);
  EXPECT_EQ(nd_chip_core_address(&nd_chip_v3, 1), 0x3000000000u);
  EXPECT_EQ(nd_chip_core_address(&nd_chip_v3, 2), 0x6000000000u);
  EXPECT_EQ(nd_chip_core_address(&nd_chip_v3, 7), 0x807000000000u);
  EXPECT_EQ(nd_chip_core_cookie(&nd_chip_v3, 7), 0x201C000000u);
  EXPECT_EQ(nd_chip_core_notification(&nd_chip_v3, 0), 0x06001000u);
  EXPECT_EQ(nd_chip_core_notification(&nd_chip_v3, 3), 0x06581000u);
  EXPECT_EQ(nd_chip_core_notification(&nd_chip_v3, 4), 0x46001000u);
  EXPECT_EQ(nd_chip_topsp_notification(&nd_chip_v3, 9), 0x46A40000u);
  EXPECT_EQ(nd_chip_topsp_window(&nd_chip_v3, 8), 0xF2800000u);
}

}  // namespace
