// SPDX-License-Identifier: Apache-2.0
// The layout of one chip generation: counts, and the addresses of its blocks.
//
// Concepts: BAR0 shows *pieces* of the device's address space (one on generation 2, many on 3 and
// 4); `device_of` translates. Blocks are named by their BAR0 offset; `bus` addresses are device
// addresses. Masks that fold the dies and cores onto one place tell registers, cores and HBM apart
// without a search. Callers: all parts of the chip, any thread: the tables are constant. The caller
// checks indexes. Written from hw/address_map.h, not shared with the drivers' table.
#ifndef DRIVER_EMULATOR_CHIP_CHIP_LAYOUT_H
#define DRIVER_EMULATOR_CHIP_CHIP_LAYOUT_H

#include <array>
#include <cstdint>
#include <span>

#include "hw/address_map.h"

namespace neuron::chip {

inline constexpr unsigned kMaxCores = 8;
inline constexpr unsigned kEnginesPerCore = 16;  // in every generation so far
inline constexpr unsigned kMaxCcPerCore = 3;

// A part of BAR0 that shows device addresses one to one.
struct RegisterPiece {
  uint64_t bar0, bytes, device;
};

// A part of BAR4 that is memory. There is nothing between two pieces.
struct MemoryPiece {
  uint64_t bar4, bytes;
  uint64_t file;  // offset in the memory file of the HBM
};

struct ChipLayout {
  unsigned generation;
  unsigned cores;
  unsigned cores_per_host_engine;
  unsigned topsps;
  unsigned topsps_per_core;
  unsigned dma_engines;
  unsigned first_host_engine;
  unsigned hbms;
  uint64_t hbm_bytes;   // populated, of each stack
  uint64_t hbm_window;  // distance of two stacks in BAR4
  std::array<uint64_t, 4> hbm_base;
  uint64_t bar0_bytes;
  uint64_t core_windows;  // BAR0: core i at core_windows + i * NEURON_V2_CORE_WINDOW_SIZE
  uint64_t misc_ram;
  uint32_t firmware_version;  // what the firmware RAM says at its beginning
  uint64_t simulation_reset;
  uint64_t host_base, host_mask, host_bytes;
  uint64_t routed_bits;  // if any of them is set, the address is on another chip
  // Parts of a routed address: the bit that is set for a peer and clear for a neighbour, and the
  // bits of the address on that chip.
  uint64_t peer_bit, peer_local, neighbour_local;
  // Firmware's reset map, bit n: where DMA engines of core 0 and TOPSP 0 begin, and how many TOPSPs
  // share a bit.
  unsigned reset_engines, reset_topsps, reset_topsps_per_bit;
  // Revision 255, which has no silicon: its reset register takes the map; its BAR4 shows HBM stacks
  // one behind the other.
  bool simulation_reset_takes_map, simulation_packs_bar4;
  // Registers and cores: (address & mask) - base < bytes. HBM and host memory are no registers.
  uint64_t register_mask, register_base, register_bytes;
  uint64_t core_mask, core_base, core_bytes;
  std::span<const RegisterPiece> pieces;
  std::span<const RegisterPiece> stored;    // blocks that keep what is written, and nothing else
  uint64_t (*core_address)(unsigned core);  // device address of a core's window
  // BAR0 offsets.
  uint64_t (*udma)(unsigned engine);
  uint64_t (*sdma)(unsigned engine);
  uint64_t (*core_notification)(unsigned core);
  uint64_t (*pe_counters)(unsigned core);
  uint64_t (*topsp_window)(unsigned topsp);
  uint64_t (*topsp_notification)(unsigned topsp);

  // Whether a device address is a register, that is, has side effects or no memory behind it.
  bool is_register(uint64_t address) const {
    address = local(address);
    if ((address & register_mask) - register_base >= register_bytes) return false;
    const uint64_t inside = (address & core_mask) - core_base;
    return inside >= core_bytes ||
           inside % NEURON_V2_CORE_WINDOW_SIZE >= NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE;
  }
  // Whether it lies in a core's window: its SBUF, PSUM and registers.
  bool is_core(uint64_t address) const {
    address = local(address);
    return (address & core_mask) - core_base < core_bytes;
  }
  bool is_sbuf(uint64_t address) const {
    const uint64_t inside = (local(address) & core_mask) - core_base;
    return inside < core_bytes && inside % NEURON_V2_CORE_WINDOW_SIZE < NEURON_CORE_SBUF_SIZE;
  }
  bool is_routed(uint64_t address) const { return (address & routed_bits) != 0; }
  // The address on the chip that the routed address names.
  uint64_t local(uint64_t address) const {
    if (!is_routed(address)) [[likely]] {
      return address;
    }
    return address & ((address & peer_bit) != 0 ? peer_local : neighbour_local);
  }
  bool is_host(uint64_t address) const { return (address & host_mask) == host_base; }
  bool is_hbm(uint64_t address) const {
    return !is_host(address) && !is_routed(address) && (address & register_mask) < register_base;
  }
  // Device address of a BAR0 offset; ~0 where BAR0 shows nothing.
  uint64_t device_of(uint64_t bar0) const;
  // The core that a host's DMA engine serves with a queue; for other engines, the core that owns
  // the engine.
  unsigned core_of(unsigned engine, unsigned queue) const {
    return engine < first_host_engine ? engine / kEnginesPerCore
                                      : (engine - first_host_engine) * cores_per_host_engine +
                                            queue % cores_per_host_engine;
  }
  unsigned host_engine(unsigned core) const {
    return first_host_engine + core / cores_per_host_engine;
  }
};

extern const ChipLayout kLayoutV1;
extern const ChipLayout kLayoutV2;
extern const ChipLayout kLayoutV3;
extern const ChipLayout kLayoutV4;

// The table for a PCI device id, or null.
const ChipLayout* layout_of(uint16_t pci_device);

}  // namespace neuron::chip

#endif
