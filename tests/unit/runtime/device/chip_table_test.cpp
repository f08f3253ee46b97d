// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/chip_table.h"

#include <gtest/gtest.h>

#include "hw/address_map.h"
#include "hw/udma.h"
#include "nrt/nrt_types.h"

namespace neuron::runtime {
namespace {

TEST(ChipTable, HasARowForEachGenerationThatTheRuntimeDrives) {
  for (const uint32_t generation : {1u, 2u, 3u, 4u}) {
    ASSERT_NE(find_chip_table(generation), nullptr);
    EXPECT_EQ(find_chip_table(generation)->generation, generation);
  }
  for (const uint32_t generation : {0u, 5u}) {
    EXPECT_EQ(find_chip_table(generation), nullptr) << generation;
  }
  EXPECT_EQ(known_chips(), "1 (inf1), 2 (trn1, inf2), 3 (trn2) and 4 (trn3)");
}

TEST(ChipTable, CountsTheCoresOfADevice) {
  EXPECT_EQ(cores_per_device(2), 2u);
  EXPECT_EQ(cores_per_device(3), 8u);
  EXPECT_EQ(cores_per_device(4), 8u);
  EXPECT_EQ(cores_per_device(1), 4u);
  EXPECT_EQ(cores_per_device(0), 0u);
  EXPECT_EQ(cores_per_device(5), 0u);
}

TEST(ChipTable, VirtualCoresAndCoreMapsBeginWithGenerationThree) {
  EXPECT_EQ(find_chip_table(2)->logical_cores, 1u);
  EXPECT_EQ(find_chip_table(3)->logical_cores, 2u);
  EXPECT_FALSE(find_chip_table(2)->has_core_map);
  EXPECT_TRUE(find_chip_table(3)->has_core_map);
  EXPECT_EQ(find_chip_table(2)->family, static_cast<uint32_t>(NRT_INSTANCE_TRN1));
  EXPECT_EQ(find_chip_table(3)->family, static_cast<uint32_t>(NRT_INSTANCE_UNKNOWN));
  EXPECT_EQ(find_chip_table(4)->logical_cores, 2u);
  EXPECT_TRUE(find_chip_table(4)->has_core_map);
}

TEST(ChipTable, RegionsAscendAndBeginWithTheFirstHbm) {
  for (const uint32_t generation : {1u, 2u, 3u, 4u}) {
    const ChipTable& chip = *find_chip_table(generation);
    EXPECT_STREQ(chip.regions.front().name, "HBM 0");
    for (size_t i = 0; i < chip.regions.size(); ++i) {
      EXPECT_LT(chip.regions[i].first, chip.regions[i].last) << chip.regions[i].name;
      if (i != 0) {
        EXPECT_LT(chip.regions[i - 1].last, chip.regions[i].first) << chip.regions[i].name;
      }
    }
  }
}

TEST(ChipTable, EachCoreAndEngineHasItsPlaceInTheWindowsOfTheChip) {
  for (const uint32_t generation : {2u, 3u, 4u}) {
    const ChipTable& chip = *find_chip_table(generation);
    for (uint32_t core = 0; core < chip.cores; ++core) {
      const CorePlace place{&chip, core};
      EXPECT_EQ(place.hbm(), core / chip.cores_per_hbm);
      EXPECT_LT(place.hbm(), chip.hbms);
      const auto lies_in_a_region = [&](uint64_t address) {
        for (const AddressRegion& region : chip.regions) {
          if (address >= region.first && address <= region.last) return true;
        }
        return false;
      };
      EXPECT_TRUE(lies_in_a_region(place.window()));
      for (uint32_t k = 0; k < chip.cc_cores; ++k) {
        EXPECT_TRUE(lies_in_a_region(place.cc_window(k)));
        EXPECT_EQ(place.cc_window(k), chip.cc_window(core * chip.cc_cores + k));
        EXPECT_EQ(place.cc_bar0(k), chip.cc_bar0(core * chip.cc_cores + k));
      }
      for (const uint32_t engine : {0u, 1u, 15u}) {
        EXPECT_EQ(place.dma_engine(engine), core * 16 + engine);
        EXPECT_TRUE(lies_in_a_region(place.queue_register(engine, NEURON_UDMA_M2S, 0, 0)));
      }
      EXPECT_EQ(place.queue_register(1, NEURON_UDMA_S2M, 3, 8),
                place.queue_register(0, NEURON_UDMA_S2M, 3, 8) + chip.dma_stride);
    }
  }
}

TEST(ChipTable, GenerationTwoShowsTheSameRegistersInBarZeroAndToTheDevice) {
  const CorePlace place{find_chip_table(2), 1};
  EXPECT_EQ(place.window(), NEURON_V2_BAR0_DEVICE_BASE + place.window_bar0());
  EXPECT_EQ(place.cc_window(2), NEURON_V2_BAR0_DEVICE_BASE + place.cc_bar0(2));
  EXPECT_EQ(place.queue_register(3, NEURON_UDMA_M2S, 2, NEURON_UDMAQ_TAIL),
            NEURON_V2_BAR0_DEVICE_BASE +
                place.queue_register_bar0(3, NEURON_UDMA_M2S, 2, NEURON_UDMAQ_TAIL));
  EXPECT_EQ(place.queue_register_bar0(3, NEURON_UDMA_M2S, 2, NEURON_UDMAQ_TAIL),
            NEURON_V2_UDMA(19) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 2) + NEURON_UDMAQ_TAIL);
}

TEST(ChipTable, GenerationThreeHasTheEnginesOfTwoCoresInOnePlace) {
  for (const uint32_t core : {0u, 1u, 5u, 7u}) {
    const CorePlace place{find_chip_table(3), core};
    const uint64_t group = core / 2;
    EXPECT_EQ(place.queue_register(4, NEURON_UDMA_M2S, 1, 4) - NEURON_V3_SENG_DEVICE(group),
              place.queue_register_bar0(4, NEURON_UDMA_M2S, 1, 4) - NEURON_V3_SENG(group));
  }
}

TEST(ChipTable, StreamsOfACoreShareItsDmaEnginesWithoutOverlap) {
  for (const uint32_t generation : {2u, 3u, 4u}) {
    const ChipTable& chip = *find_chip_table(generation);
    uint32_t used = 0;
    for (uint32_t k = 0; k < chip.cc_cores; ++k) {
      EXPECT_NE(chip.cc_engines(k), 0);
      EXPECT_EQ(used & chip.cc_engines(k), 0u);
      used |= chip.cc_engines(k);
    }
  }
}

}  // namespace
}  // namespace neuron::runtime
