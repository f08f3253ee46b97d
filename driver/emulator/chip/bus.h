// SPDX-License-Identifier: Apache-2.0
// Device bus of one chip: routes device addresses to memories and register blocks.
//
// Concepts: one 64-bit device address space (include/hw/address_map.h). A *target* owns an address
// range. Plain memory (HBM, host memory behind bit 44, SBUF) can give a direct pointer; registers
// have side effects and are written as aligned 32-bit words in ascending order. Host MMIO uses the
// same targets through BAR0 offset + NEURON_V2_BAR0_DEVICE_BASE. Callers: host threads (service),
// DMA engines and sequencers. Thread-safe: routing is immutable after the chip is built; each
// target locks for itself. Fails: an unmapped or refused access returns false, changes nothing and
// is the initiator's to report.
#ifndef DRIVER_EMULATOR_CHIP_BUS_H
#define DRIVER_EMULATOR_CHIP_BUS_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hw/address_map.h"

namespace neuron::chip {

using ModelTime = uint64_t;  // picoseconds since the launch's doorbell

enum class Origin : uint8_t { kHost, kDma, kEngine };

// Who accesses and when. `time` is 0 for the host.
struct Access {
  Origin origin = Origin::kHost;
  uint8_t core = 0;    // core of the initiating engine or DMA group
  uint8_t engine = 8;  // NEURON_ENGINE_*
  ModelTime time = 0;
};

class BusTarget {
 public:
  virtual ~BusTarget() = default;
  // `offset` is relative to the attached base. Partial success is not possible.
  virtual bool read(uint64_t offset, std::span<std::byte> out, const Access& access) = 0;
  virtual bool write(uint64_t offset, std::span<const std::byte> in, const Access& access) = 0;
  // Plain memory only: a pointer valid for `length` bytes, or null.
  virtual std::byte* direct(uint64_t offset, size_t length) {
    (void)offset;
    (void)length;
    return nullptr;
  }
};

class Bus {
 public:
  // Ranges must not overlap; `target` outlives the bus. Called while the chip is built, before any
  // access.
  void attach(uint64_t base, uint64_t size, BusTarget* target, const char* name);

  bool read(uint64_t address, std::span<std::byte> out, const Access& access) const;
  bool write(uint64_t address, std::span<const std::byte> in, const Access& access) const;
  bool read32(uint64_t address, uint32_t& value, const Access& access) const;
  bool write32(uint64_t address, uint32_t value, const Access& access) const;
  std::byte* direct(uint64_t address, size_t length) const;
  // Name of the range that holds the address ("HBM 0", "UDMA engine 3", ...); "unmapped" otherwise.
  const char* name_of(uint64_t address) const;

 private:
  struct Range {
    uint64_t base, size;
    BusTarget* target;
    const char* name;
  };
  // Units of the register window that one range covers completely are decoded by table.
  static constexpr unsigned kUnitShift = 18;
  static constexpr size_t kUnits = NEURON_V2_BAR0_SIZE >> kUnitShift;

  const Range* find(uint64_t address, size_t length) const;
  const Range* search(uint64_t address) const;
  void rebuild_table();
  std::vector<Range> ranges_;     // sorted by base
  const Range* first_ = nullptr;  // the range at address 0, where most traffic goes
  const Range* last_ = nullptr;   // the highest one: host memory
  std::vector<const Range*> units_ = std::vector<const Range*>(kUnits, nullptr);
};

}  // namespace neuron::chip

#endif
