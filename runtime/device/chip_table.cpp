// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/chip_table.h"

#include "driver/base/format.h"
#include "hw/address_map.h"
#include "hw/udma.h"
#include "nrt/nrt_types.h"

namespace neuron::runtime {
namespace {

constexpr AddressRegion kRegionsV2[] = {
    {0, NEURON_V2_HBM_SIZE - 1, "HBM 0"},
    {NEURON_V2_HBM_STRIDE, NEURON_V2_HBM_STRIDE + NEURON_V2_HBM_SIZE - 1, "HBM 1"},
    {NEURON_V2_BAR0_DEVICE_BASE, NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_BAR0_SIZE - 1,
     "the registers and on-chip memories"},
    {NEURON_V2_HOST_BASE, NEURON_V2_HOST_BASE + NEURON_V2_HOST_SIZE - 1, "host memory"}};

// Generation 3: each die's DMA engines, cores and own registers.
constexpr uint64_t kSengBytes = NEURON_V3_SENG_SIZE;
constexpr uint64_t kIoEnd = 0x8500000000;  // behind the last CC core

constexpr AddressRegion hbm(uint64_t number, const char* name) {
  return {NEURON_V3_HBM_BASE(number), NEURON_V3_HBM_BASE(number) + NEURON_V3_HBM_SIZE - 1, name};
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

constexpr AddressRegion kRegionsV3[] = {
    hbm(0, "HBM 0"),
    seng(0, "the DMA engines of cores 0 and 1"),
    core(0, "core 0"),
    core(1, "core 1"),
    hbm(1, "HBM 1"),
    seng(1, "the DMA engines of cores 2 and 3"),
    core(2, "core 2"),
    core(3, "core 3"),
    die(0, "the registers of die 0"),
    {NEURON_V3_HOST_BASE, NEURON_V3_HOST_BASE + NEURON_V3_HOST_SIZE - 1, "host memory"},
    hbm(2, "HBM 2"),
    seng(2, "the DMA engines of cores 4 and 5"),
    core(4, "core 4"),
    core(5, "core 5"),
    hbm(3, "HBM 3"),
    seng(3, "the DMA engines of cores 6 and 7"),
    core(6, "core 6"),
    core(7, "core 7"),
    die(1, "the registers of die 1")};

constexpr bool ascending(std::span<const AddressRegion> regions) {
  for (size_t i = 1; i < regions.size(); ++i) {
    if (regions[i - 1].last >= regions[i].first) return false;
  }
  return true;
}
static_assert(ascending(kRegionsV2) && ascending(kRegionsV3));

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
    .window_bar0 = [](uint32_t core) -> uint64_t { return NEURON_V2_CORE_WINDOW(core); },
    .window = [](uint32_t core) -> uint64_t {
      return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(core);
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
    .cc_engines = [](uint32_t k) -> uint16_t { return NEURON_V2_CC_ENGINES(k); },
};

// Device address of engines of the cores: those of a SENG lie where BAR 0 shows its registers.
constexpr uint64_t dma_v3(uint32_t engine) {
  const uint64_t group = engine / 32;
  return NEURON_V3_SENG_DEVICE(group) + (NEURON_V3_UDMA(engine) - NEURON_V3_SENG(group));
}

constexpr ChipTable kV3 = {
    .generation = 3,
    .cores = NEURON_V3_CORES,
    .cores_per_hbm = 2,
    .hbms = NEURON_V3_HBM_COUNT,
    .hbm_bytes = NEURON_V3_HBM_SIZE,
    .dma_stride = NEURON_V3_UDMA_STRIDE,
    .logical_cores = 2,
    .families = "trn2",
    .family = NRT_INSTANCE_UNKNOWN,
    .has_core_map = true,
    .regions = kRegionsV3,
    .window_bar0 = [](uint32_t core) -> uint64_t { return NEURON_V3_CORE_WINDOW(core); },
    .window = [](uint32_t core) -> uint64_t { return NEURON_V3_CORE_DEVICE(uint64_t{core}); },
    .notification = [](uint32_t core) -> uint64_t { return NEURON_V3_CORE_NOTIFICATION(core); },
    .dma = dma_v3,
    .dma_bar0 = [](uint32_t engine) -> uint64_t { return NEURON_V3_UDMA(engine); },
    .cc_cores = NEURON_V3_TOPSPS_PER_CORE,
    .cc_bar0 = [](uint32_t number) -> uint64_t { return NEURON_V3_TOPSP_WINDOW(uint64_t{number}); },
    .cc_window = [](uint32_t number) -> uint64_t {
      return NEURON_V3_TOPSP_DEVICE(uint64_t{number});
    },
    .cc_engines = [](uint32_t k) -> uint16_t { return NEURON_V3_CC_ENGINES(k); },
};

constexpr const ChipTable* kChips[] = {&kV2, &kV3};

struct DeviceCores {
  uint32_t architecture, cores;
};
constexpr DeviceCores kNotDriven[] = {{4, 8}};

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
    text +=
        base::format("{}{} ({})", text.empty() ? "" : " and ", chip->generation, chip->families);
  }
  return text;
}

uint32_t cores_per_device(uint32_t architecture) {
  if (const ChipTable* chip = find_chip_table(architecture)) return chip->cores;
  for (const DeviceCores& device : kNotDriven) {
    if (device.architecture == architecture) return device.cores;
  }
  return 0;
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
