// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/chip_table.h"

#include <array>
#include <iterator>

#include "driver/base/format.h"
#include "hw/address_map.h"
#include "hw/udma.h"
#include "nrt/nrt_types.h"

namespace neuron::runtime {
namespace {

constexpr AddressRegion kRegionsV1[] = {
    {0, NEURON_V1_DRAM_SIZE - 1, "HBM 0"},
    {NEURON_V2_HBM_STRIDE, NEURON_V2_HBM_STRIDE + NEURON_V1_DRAM_SIZE - 1, "HBM 1"},
    {NEURON_V2_BAR0_DEVICE_BASE, NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_BAR0_SIZE - 1,
     "the registers and on-chip memories"},
    {NEURON_V1_HOST_BASE, 2 * NEURON_V1_HOST_BASE - 1, "host memory"}};
constexpr AddressRegion kRegionsV2[] = {
    {0, NEURON_V2_HBM_SIZE - 1, "HBM 0"},
    {NEURON_V2_HBM_STRIDE, NEURON_V2_HBM_STRIDE + NEURON_V2_HBM_SIZE - 1, "HBM 1"},
    {NEURON_V2_BAR0_DEVICE_BASE, NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_BAR0_SIZE - 1,
     "the registers and on-chip memories"},
    {NEURON_V2_HOST_BASE, NEURON_V2_HOST_BASE + NEURON_V2_HOST_SIZE - 1, "host memory"}};

// Generations 3 and 4: each die's DMA engines, cores and own registers.
constexpr uint64_t kSengBytes = NEURON_V3_SENG_SIZE;
constexpr uint64_t kIoEnd = 0x8500000000;  // behind the last CC core

constexpr AddressRegion hbm(uint64_t number, uint64_t bytes, const char* name) {
  return {NEURON_V3_HBM_BASE(number), NEURON_V3_HBM_BASE(number) + bytes - 1, name};
}
constexpr AddressRegion seng(uint64_t number, const char* name) {
  return {NEURON_V3_SENG_DEVICE(number), NEURON_V3_SENG_DEVICE(number) + kSengBytes - 1, name};
}
constexpr AddressRegion core(uint64_t number, const char* name) {
  return {NEURON_V3_CORE_DEVICE(number),
          NEURON_V3_CORE_DEVICE(number) + NEURON_V2_CORE_WINDOW_SIZE - 1, name};
}
constexpr AddressRegion die(uint64_t number, const char* name) {
  return {NEURON_V3_IO_DIE_DEVICE(number), kIoEnd + number * NEURON_V3_DIE_BIT - 1, name};
}

constexpr std::array<AddressRegion, 19> regions_of_two_dies(uint64_t bytes) {
  return {{hbm(0, bytes, "HBM 0"),
           seng(0, "the DMA engines of cores 0 and 1"),
           core(0, "core 0"),
           core(1, "core 1"),
           hbm(1, bytes, "HBM 1"),
           seng(1, "the DMA engines of cores 2 and 3"),
           core(2, "core 2"),
           core(3, "core 3"),
           die(0, "the registers of die 0"),
           {NEURON_V3_HOST_BASE, NEURON_V3_HOST_BASE + NEURON_V3_HOST_SIZE - 1, "host memory"},
           hbm(2, bytes, "HBM 2"),
           seng(2, "the DMA engines of cores 4 and 5"),
           core(4, "core 4"),
           core(5, "core 5"),
           hbm(3, bytes, "HBM 3"),
           seng(3, "the DMA engines of cores 6 and 7"),
           core(6, "core 6"),
           core(7, "core 7"),
           die(1, "the registers of die 1")}};
}
constexpr auto kRegionsV3 = regions_of_two_dies(NEURON_V3_HBM_SIZE);
constexpr auto kRegionsV4 = regions_of_two_dies(NEURON_V4_HBM_SIZE);

constexpr bool ascending(std::span<const AddressRegion> regions) {
  for (size_t i = 1; i < regions.size(); ++i) {
    if (regions[i - 1].last >= regions[i].first) return false;
  }
  return true;
}
static_assert(ascending(kRegionsV1) && ascending(kRegionsV2) && ascending(kRegionsV3) &&
              ascending(kRegionsV4));

constexpr uint64_t window_v2(uint32_t core) { return NEURON_V2_CORE_WINDOW(core); }

// A chip without programs, and so without CC cores of its own.
constexpr ChipTable kV1 = {
    .generation = 1,
    .cores = NEURON_V1_CORES,
    .cores_per_hbm = 2,
    .hbms = NEURON_V1_DRAM_COUNT,
    .hbm_bytes = NEURON_V1_DRAM_SIZE,
    .dma_stride = NEURON_V1_UDMA(1) - NEURON_V1_UDMA(0),
    .logical_cores = 1,
    .families = "inf1",
    .family = NRT_INSTANCE_INF1,
    .has_programs = false,
    .has_core_map = false,
    .regions = kRegionsV1,
    .window_bar0 = window_v2,
    .window = [](uint32_t core) -> uint64_t {
      return NEURON_V2_BAR0_DEVICE_BASE + window_v2(core);
    },
    .notification = [](uint32_t core) -> uint64_t { return NEURON_V1_CORE_NOTIFICATION(core); },
    .dma = [](uint32_t engine) -> uint64_t {
      return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V1_UDMA(engine);
    },
    .dma_bar0 = [](uint32_t engine) -> uint64_t { return NEURON_V1_UDMA(engine); },
    .cc_cores = 0,
    .cc_bar0 = nullptr,
    .cc_window = nullptr,
    .cc_notification = nullptr,
    .cc_engines = nullptr,
};

constexpr ChipTable kV2 = {
    .generation = 2,
    .cores = NEURON_V2_CORES,
    .cores_per_hbm = 1,
    .hbms = NEURON_V2_HBM_COUNT,
    .hbm_bytes = NEURON_V2_HBM_SIZE,
    .dma_stride = NEURON_V2_UDMA_STRIDE,
    .logical_cores = 1,
    .families = "trn1, inf2",
    .family = NRT_INSTANCE_TRN1,
    .has_core_map = false,
    .regions = kRegionsV2,
    .window_bar0 = window_v2,
    .window = [](uint32_t core) -> uint64_t {
      return NEURON_V2_BAR0_DEVICE_BASE + window_v2(core);
    },
    .notification = [](uint32_t core) -> uint64_t { return NEURON_V2_CORE_NOTIFICATION(core); },
    .dma = [](uint32_t engine) -> uint64_t {
      return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(engine);
    },
    .dma_bar0 = [](uint32_t engine) -> uint64_t { return NEURON_V2_UDMA(engine); },
    .cc_cores = NEURON_V2_TOPSPS_PER_CORE,
    .cc_bar0 = [](uint32_t number) -> uint64_t { return NEURON_V2_TOPSP_WINDOW(uint64_t{number}); },
    .cc_window = [](uint32_t number) -> uint64_t {
      return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_TOPSP_WINDOW(uint64_t{number});
    },
    .cc_notification = [](uint32_t number) -> uint64_t {
      return NEURON_V2_TOPSP_NOTIFICATION(uint64_t{number});
    },
    .cc_engines = [](uint32_t k) -> uint16_t { return NEURON_V2_CC_ENGINES(k); },
};

// Device address of engines of the cores: those of a SENG lie where BAR 0 shows its registers.
constexpr uint64_t dma_v3(uint32_t engine) {
  const uint64_t group = engine / 32;
  return NEURON_V3_SENG_DEVICE(group) + (NEURON_V3_UDMA(engine) - NEURON_V3_SENG(group));
}

constexpr ChipTable two_dies(uint32_t generation, const char* families, uint64_t hbm_bytes,
                             std::span<const AddressRegion> regions) {
  return {
      .generation = generation,
      .cores = NEURON_V3_CORES,
      .cores_per_hbm = 2,
      .hbms = NEURON_V3_HBM_COUNT,
      .hbm_bytes = hbm_bytes,
      .dma_stride = NEURON_V3_UDMA_STRIDE,
      .logical_cores = 2,
      .families = families,
      .family = NRT_INSTANCE_UNKNOWN,
      .has_core_map = true,
      .regions = regions,
      .window_bar0 = [](uint32_t core) -> uint64_t { return NEURON_V3_CORE_WINDOW(core); },
      .window = [](uint32_t core) -> uint64_t { return NEURON_V3_CORE_DEVICE(uint64_t{core}); },
      .notification = [](uint32_t core) -> uint64_t { return NEURON_V3_CORE_NOTIFICATION(core); },
      .dma = dma_v3,
      .dma_bar0 = [](uint32_t engine) -> uint64_t { return NEURON_V3_UDMA(engine); },
      .cc_cores = NEURON_V3_TOPSPS_PER_CORE,
      .cc_bar0 = [](uint32_t number) -> uint64_t {
        return NEURON_V3_TOPSP_WINDOW(uint64_t{number});
      },
      .cc_window = [](uint32_t number) -> uint64_t {
        return NEURON_V3_TOPSP_DEVICE(uint64_t{number});
      },
      .cc_notification = [](uint32_t number) -> uint64_t {
        return NEURON_V3_TOPSP_NOTIFICATION(uint64_t{number});
      },
      .cc_engines = [](uint32_t k) -> uint16_t { return NEURON_V3_CC_ENGINES(k); },
  };
}
constexpr ChipTable kV3 = two_dies(3, "trn2", NEURON_V3_HBM_SIZE, kRegionsV3);
constexpr ChipTable kV4 = two_dies(4, "trn3", NEURON_V4_HBM_SIZE, kRegionsV4);

constexpr const ChipTable* kChips[] = {&kV1, &kV2, &kV3, &kV4};

}  // namespace

const ChipTable* find_chip_table(uint32_t generation) {
  for (const ChipTable* chip : kChips) {
    if (chip->generation == generation) return chip;
  }
  return nullptr;
}

std::string known_chips() {
  std::string text;
  for (const ChipTable* chip : kChips) {
    text += base::format("{}{} ({})",
                         text.empty()                   ? ""
                         : chip == *std::rbegin(kChips) ? " and "
                                                        : ", ",
                         chip->generation, chip->families);
  }
  return text;
}

uint32_t cores_per_device(uint32_t architecture) {
  const ChipTable* chip = find_chip_table(architecture);
  return chip == nullptr ? 0 : chip->cores;
}

uint64_t CorePlace::queue_register(uint32_t engine, uint32_t half, uint32_t queue,
                                   uint32_t offset) const {
  return chip->dma(dma_engine(engine)) + NEURON_UDMA_QUEUE(half, queue) + offset;
}

uint64_t CorePlace::queue_register_bar0(uint32_t engine, uint32_t half, uint32_t queue,
                                        uint32_t offset) const {
  return chip->dma_bar0(dma_engine(engine)) + NEURON_UDMA_QUEUE(half, queue) + offset;
}

}  // namespace neuron::runtime
