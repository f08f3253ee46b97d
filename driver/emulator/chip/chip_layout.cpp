// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/chip_layout.h"

namespace neuron::chip {
namespace {

constexpr RegisterPiece kPiecesV2[] = {{0, NEURON_V2_BAR0_SIZE, NEURON_V2_BAR0_DEVICE_BASE}};

constexpr unsigned kDies = 2;
constexpr unsigned kSengs = 4;
constexpr auto kPiecesV3 = [] {
  std::array<RegisterPiece, kDies + kSengs + NEURON_V3_CORES + NEURON_V3_TOPSPS> pieces{};
  unsigned n = 0;
  for (uint64_t i = 0; i < kDies; ++i) {
    pieces[n++] = {NEURON_V3_IO_DIE(i), NEURON_V3_IO_DIE_SIZE, NEURON_V3_IO_DIE_DEVICE(i)};
  }
  for (uint64_t i = 0; i < kSengs; ++i) {
    pieces[n++] = {NEURON_V3_SENG(i), NEURON_V3_SENG_SIZE, NEURON_V3_SENG_DEVICE(i)};
  }
  for (uint64_t i = 0; i < NEURON_V3_CORES; ++i) {
    pieces[n++] = {NEURON_V3_CORE_WINDOW(i), NEURON_V2_CORE_WINDOW_SIZE, NEURON_V3_CORE_DEVICE(i)};
  }
  for (uint64_t i = 0; i < NEURON_V3_TOPSPS; ++i) {
    pieces[n++] = {NEURON_V3_TOPSP_WINDOW(i), NEURON_V2_TOPSP_WINDOW_SIZE,
                   NEURON_V3_TOPSP_DEVICE(i)};
  }
  return pieces;
}();

// Interrupt control of 32 DMA engines each, beside the engines' own.
constexpr uint64_t kFisBytes = 32 * 0x20000;
constexpr RegisterPiece kStoredV3[] = {
    {NEURON_V3_FIS(0u), kFisBytes, 0},
    {NEURON_V3_FIS(32u), kFisBytes, 0},
    {NEURON_V3_FIS(64u), kFisBytes, 0},
    {NEURON_V3_FIS(96u), kFisBytes, 0},
};

// The counters of the tensor engines: two cores of each SENG, two SENGs of each die.
uint64_t pe_counters_v3(unsigned core) {
  constexpr uint64_t kOfDie[] = {0x06141000, 0x062C1000, 0x06541000, 0x066C1000};
  return NEURON_V3_IO_DIE(uint64_t{core} / 4) + kOfDie[core % 4];
}

// Bits of a device address that choose among equal blocks of generation 3.
constexpr uint64_t kDieBit = NEURON_V3_DIE_BIT;
constexpr uint64_t kSengBit = 0x4000000000;
constexpr uint64_t kCoreBit = 0x1000000000;

// Generations 3 and 4 differ in the size of an HBM stack.
constexpr ChipLayout two_dies(unsigned generation, uint64_t hbm_bytes) {
  return {
      .generation = generation,
      .cores = NEURON_V3_CORES,
      .cores_per_host_engine = 2,
      .topsps = NEURON_V3_TOPSPS,
      .topsps_per_core = NEURON_V3_TOPSPS_PER_CORE,
      .dma_engines = NEURON_V3_DMA_ENGINES,
      .first_host_engine = 128,
      .hbms = NEURON_V3_HBM_COUNT,
      .hbm_bytes = hbm_bytes,
      .hbm_window = NEURON_V3_HBM_WINDOW,
      .hbm_base = {NEURON_V3_HBM_BASE(0ull), NEURON_V3_HBM_BASE(1ull), NEURON_V3_HBM_BASE(2ull),
                   NEURON_V3_HBM_BASE(3ull)},
      .bar0_bytes = NEURON_V3_BAR0_SIZE,
      .core_windows = NEURON_V3_CORE_WINDOW(0),
      .misc_ram = NEURON_V3_MISC_RAM,
      // Of 7 and more the driver 2.25 asks for a power profile.
      .firmware_version = 7,
      .simulation_reset = NEURON_V3_SIM_RESET,
      .host_base = NEURON_V3_HOST_BASE,
      .host_mask = ~(NEURON_V3_HOST_SIZE - 1),
      .host_bytes = NEURON_V3_HOST_SIZE,
      .routed_bits = NEURON_V3_NEIGHBOUR_BIT | NEURON_V3_PEER_BIT,
      .peer_bit = NEURON_V3_PEER_BIT,
      .peer_local = NEURON_V3_PEER_LOCAL,
      .neighbour_local = NEURON_V3_NEIGHBOUR_LOCAL,
      .reset_engines = 8,
      .reset_topsps = 16,
      .reset_topsps_per_bit = NEURON_V3_TOPSPS_PER_CORE,
      .simulation_reset_takes_map = true,
      .simulation_packs_bar4 = true,
      // Dies and SENGs are folded onto one: HBM is below 64 GiB, everything else between there and
      // 2^40.
      .register_mask = ~(kDieBit | kSengBit),
      .register_base = NEURON_V3_SENG_DEVICE(0ull),
      .register_bytes = (uint64_t{1} << 40) - NEURON_V3_SENG_DEVICE(0ull),
      .core_mask = ~(kDieBit | kSengBit | kCoreBit),
      .core_base = NEURON_V3_CORE_DEVICE(0ull),
      .core_bytes = NEURON_V2_CORE_WINDOW_SIZE,
      .pieces = kPiecesV3,
      .stored = kStoredV3,
      .core_address = [](unsigned core) { return uint64_t{NEURON_V3_CORE_DEVICE(uint64_t{core})}; },
      .udma = [](unsigned engine) { return uint64_t{NEURON_V3_UDMA(engine)}; },
      .sdma = [](unsigned engine) { return uint64_t{NEURON_V3_SDMA(engine)}; },
      .core_notification =
          [](unsigned core) { return uint64_t{NEURON_V3_CORE_NOTIFICATION(core)}; },
      .pe_counters = pe_counters_v3,
      .topsp_window = [](unsigned topsp) { return uint64_t{NEURON_V3_TOPSP_WINDOW(topsp)}; },
      .topsp_notification =
          [](unsigned topsp) { return uint64_t{NEURON_V3_TOPSP_NOTIFICATION(topsp)}; },
  };
}

constexpr ChipLayout of_generation_2() {
  return {
      .generation = 2,
      .cores = NEURON_V2_CORES,
      .cores_per_host_engine = 1,
      .topsps = NEURON_V2_TOPSPS,
      .topsps_per_core = 3,
      .dma_engines = NEURON_V2_DMA_ENGINES,
      .first_host_engine = 32,
      .hbms = NEURON_V2_HBM_COUNT,
      .hbm_bytes = NEURON_V2_HBM_SIZE,
      .hbm_window = NEURON_V2_HBM_SIZE,
      .hbm_base = {0, NEURON_V2_HBM_STRIDE},
      .bar0_bytes = NEURON_V2_BAR0_SIZE,
      .core_windows = 0,
      .misc_ram = NEURON_V2_MISC_RAM,
      .firmware_version = 0,
      .simulation_reset = NEURON_V2_SIM_RESET,
      .host_base = NEURON_V2_HOST_BASE,
      .host_mask = ~(NEURON_V2_HOST_SIZE - 1),
      .host_bytes = NEURON_V2_HOST_SIZE,
      .routed_bits = NEURON_V2_PEER_BIT,
      .peer_bit = NEURON_V2_PEER_BIT,
      .peer_local = NEURON_V2_PEER_LOCAL,
      .neighbour_local = NEURON_V2_PEER_LOCAL,
      .reset_engines = 0,
      .reset_topsps = 8,
      .reset_topsps_per_bit = 1,
      .simulation_reset_takes_map = false,
      .simulation_packs_bar4 = false,
      .register_mask = ~uint64_t{0},
      .register_base = NEURON_V2_BAR0_DEVICE_BASE,
      .register_bytes = NEURON_V2_BAR0_SIZE,
      .core_mask = ~uint64_t{0},
      .core_base = NEURON_V2_BAR0_DEVICE_BASE,
      .core_bytes = NEURON_V2_CORES * NEURON_V2_CORE_WINDOW_SIZE,
      .pieces = kPiecesV2,
      .stored = {},
      .core_address =
          [](unsigned core) {
            return uint64_t{NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(core)};
          },
      .udma = [](unsigned engine) { return uint64_t{NEURON_V2_UDMA(engine)}; },
      .sdma = [](unsigned engine) { return uint64_t{NEURON_V2_SDMA(engine)}; },
      .core_notification =
          [](unsigned core) { return uint64_t{NEURON_V2_CORE_NOTIFICATION(core)}; },
      .pe_counters = [](unsigned core) { return uint64_t{NEURON_V2_CORE_PE_COUNTERS(core)}; },
      .topsp_window = [](unsigned topsp) { return uint64_t{NEURON_V2_TOPSP_WINDOW(topsp)}; },
      .topsp_notification =
          [](unsigned topsp) { return uint64_t{NEURON_V2_TOPSP_NOTIFICATION(topsp)}; },
  };
}

// What is not named here is where generation 2 has it.
constexpr ChipLayout of_generation_1() {
  ChipLayout layout = of_generation_2();
  layout.generation = 1;
  layout.cores = NEURON_V1_CORES;
  layout.topsps = 0;
  layout.topsps_per_core = 0;
  layout.dma_engines = NEURON_V1_DMA_ENGINES;
  layout.first_host_engine = NEURON_V1_CORES * kEnginesPerCore;
  layout.hbms = NEURON_V1_DRAM_COUNT;
  layout.hbm_bytes = NEURON_V1_DRAM_SIZE;
  layout.hbm_window = NEURON_V1_DRAM_SIZE;
  layout.host_base = NEURON_V1_HOST_BASE;
  layout.host_mask = ~(NEURON_V1_HOST_BASE - 1);
  layout.host_bytes = NEURON_V1_HOST_BASE;
  layout.routed_bits = 0;  // chips do not reach each other
  layout.peer_bit = 0;
  layout.peer_local = 0;
  layout.neighbour_local = 0;
  layout.core_bytes = NEURON_V1_CORES * NEURON_V2_CORE_WINDOW_SIZE;
  layout.udma = [](unsigned engine) { return uint64_t{NEURON_V1_UDMA(engine)}; };
  layout.sdma = [](unsigned engine) { return uint64_t{NEURON_V1_SDMA(engine)}; };
  layout.core_notification = [](unsigned core) {
    return uint64_t{NEURON_V1_CORE_NOTIFICATION(core)};
  };
  layout.pe_counters = [](unsigned core) { return uint64_t{NEURON_V1_CORE_PE_COUNTERS(core)}; };
  layout.topsp_window = nullptr;
  layout.topsp_notification = nullptr;
  return layout;
}

}  // namespace

const ChipLayout kLayoutV1 = of_generation_1();
const ChipLayout kLayoutV2 = of_generation_2();
const ChipLayout kLayoutV3 = two_dies(3, NEURON_V3_HBM_SIZE);
const ChipLayout kLayoutV4 = two_dies(4, NEURON_V4_HBM_SIZE);

const ChipLayout* layout_of(uint16_t pci_device) {
  if (pci_device >= NEURON_PCI_DEVICE_INF1 && pci_device <= NEURON_PCI_DEVICE_INF1_LAST) {
    return &kLayoutV1;
  }
  switch (pci_device) {
    case NEURON_PCI_DEVICE_TRN1:
    case NEURON_PCI_DEVICE_INF2:
      return &kLayoutV2;
    case NEURON_PCI_DEVICE_TRN2:
      return &kLayoutV3;
    case NEURON_PCI_DEVICE_TRN3:
    case NEURON_PCI_DEVICE_TRN3_SECOND:
      return &kLayoutV4;
    default:
      return nullptr;
  }
}

uint64_t ChipLayout::device_of(uint64_t bar0) const {
  for (const RegisterPiece& piece : pieces) {
    if (bar0 - piece.bar0 < piece.bytes) return bar0 - piece.bar0 + piece.device;
  }
  return ~uint64_t{0};
}

}  // namespace neuron::chip
