// SPDX-License-Identifier: Apache-2.0
// Device bus of one chip: routes device addresses to memories and register blocks.
//
// Concepts: one 64-bit device address space (include/hw/address_map.h). A *target* owns an address
// range. Plain memory (HBM, host memory behind the host bit, SBUF) can give a direct pointer;
// registers have side effects and are written as aligned 32-bit words in ascending order. Host MMIO
// uses the same targets: the chip translates BAR0 offsets. Callers: host threads (service), DMA
// engines and sequencers. Thread-safe: routing is immutable after seal(); each target locks for
// itself. Fails: an unmapped or refused access returns false, changes nothing and is the
// initiator's to report.
#ifndef DRIVER_EMULATOR_CHIP_BUS_H
#define DRIVER_EMULATOR_CHIP_BUS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "driver/emulator/chip/chip_layout.h"
#include "driver/emulator/chip/driver_patience.h"
#include "driver/emulator/chip/host_memory.h"
#include "driver/emulator/chip/host_writes.h"
#include "hw/fault.h"

namespace neuron::chip {

using ModelTime = uint64_t;  // picoseconds since the launch's doorbell

enum class Origin : uint8_t { kHost, kDma, kEngine };

// What of the host's memory an initiator reaches: what the host shows to all, or, for the queues
// that the host's driver keeps for itself, everything (Chip::keep_queue).
enum class Reach : uint8_t { kShared, kDriver };

// The initiator of an access, and when it accesses. `time` is 0 for the host.
struct Access {
  static constexpr uint8_t kOtherChip = 0xFF;

  Origin origin = Origin::kHost;
  uint8_t core = 0;    // core of the initiating engine or DMA group; kOtherChip: of another chip
  uint8_t engine = 8;  // NEURON_ENGINE_*
  ModelTime time = 0;  // of the initiator's execution group; when it arrives here
  uint8_t unit = 0;    // engine CC: number of the CC core in its core
  Reach reach = Reach::kShared;
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

class Fabric;

class Bus {
 public:
  explicit Bus(const ChipLayout& layout = kLayoutV2) : layout_(layout) {}

  // Ranges must not overlap; `target` outlives the bus. Called while the chip is built, before any
  // access.
  void attach(uint64_t base, uint64_t size, BusTarget* target, const char* name);
  // After the last attach: builds the tables that make routing quick. Without it all is searched.
  void seal();
  // The chip's place among others, to which routed addresses lead. Before any access.
  void set_fabric(const Fabric& fabric, unsigned node) {
    fabric_ = &fabric;
    node_ = node;
  }
  // The host's memory as most initiators see it (its window is attached like any other), and the
  // window of all of it. Before any access.
  void set_host(HostMemory& shared, HostMemory& all, BusTarget& window_of_all) {
    host_memory_ = {&shared, &all};
    window_of_all_ = &window_of_all;
  }
  // For Transfer: pointers that direct() and memory() give are good within one.
  HostMemory& host_memory(Reach reach = Reach::kShared) const {
    return *host_memory_[static_cast<size_t>(reach)];
  }
  const ChipLayout& layout() const { return layout_; }
  // Where writes into the host's memory are recorded; null: nowhere. Before any access.
  void set_host_writes(HostWrites* writes) { host_writes_ = writes; }
  HostWrites* host_writes() const { return host_writes_; }
  // How long the host's driver waits for its own copies, on the engines that are the host's: what
  // comes later is refused, as by an engine that hung. Before any access.
  void set_patience(const DriverPatience& patience) { patience_ = patience; }
  const DriverPatience& patience() const { return patience_; }
  // By whoever has written through a pointer of direct() or memory(). `write` has the device
  // address.
  void wrote(HostWrite write, uint64_t doorbell_ns = 0) const {
    if (host_writes_ == nullptr || !layout_.is_host(write.address)) [[likely]] {
      return;
    }
    write.address -= layout_.host_base;
    host_writes_->record(write, doorbell_ns);
  }

  bool read(uint64_t address, std::span<std::byte> out, const Access& access) const;
  bool write(uint64_t address, std::span<const std::byte> in, const Access& access) const;
  bool read32(uint64_t address, uint32_t& value, const Access& access) const;
  bool write32(uint64_t address, uint32_t value, const Access& access) const;
  // Null if it is no plain memory, or not in one piece.
  std::byte* direct(uint64_t address, size_t length, Reach reach = Reach::kShared) const;
  // The same, also for memory of other chips.
  std::byte* memory(uint64_t address, size_t length, Reach reach = Reach::kShared) const;
  // Why an access was refused: BUS, or LINK with the id in `id`.
  neuron_fault refusal(uint64_t address, uint32_t& id) const;
  const Fabric* fabric() const { return fabric_; }
  unsigned node() const { return node_; }
  // Name of the range that holds the address ("HBM 0", "UDMA engine 3", ...); "unmapped" otherwise.
  const char* name_of(uint64_t address) const;

 private:
  struct Range {
    uint64_t base, size;
    BusTarget* target;
    const char* name;
  };
  // 4 GiB of the address space. Units that one range covers completely are decoded by table; all
  // else is searched.
  struct Region {
    const Range* whole = nullptr;  // the only range of the region
    uint32_t first = 0;            // unit, of the region's first table entry
    uint32_t units = 0;
    const Range* const* table = nullptr;
  };
  static constexpr unsigned kUnitShift = 18;
  static constexpr unsigned kRegionShift = 32;
  static constexpr uint32_t kUnitMask = (1u << (kRegionShift - kUnitShift)) - 1;
  static constexpr size_t kRegions = 512;

  // Address bits 32-39 and the die. Addresses that differ elsewhere share a region, which is then
  // searched; what is found is compared with the whole address in any case.
  static size_t region_of(uint64_t address) {
    return (address >> kRegionShift & 0xFF) | (address >> 39 & 0x100);
  }
  bool is_routed(uint64_t address) const {
    return fabric_ != nullptr && layout_.is_routed(address);
  }
  const Range* find(uint64_t address, size_t length) const;
  BusTarget& target_of(const Range& range, Reach reach) const {
    const bool all = reach == Reach::kDriver && range.base == layout_.host_base;
    return all && window_of_all_ != nullptr ? *window_of_all_ : *range.target;
  }
  const Range* search(uint64_t address) const;
  void seal_region(size_t number, const std::vector<const Range*>& ranges);

  const ChipLayout& layout_;
  const Fabric* fabric_ = nullptr;
  unsigned node_ = 0;
  std::vector<Range> ranges_;     // sorted by base
  const Range* first_ = nullptr;  // the range at address 0, where most traffic goes
  const Range* host_ = nullptr;
  std::array<HostMemory*, 2> host_memory_ = {&HostMemory::none(), &HostMemory::none()};  // by Reach
  BusTarget* window_of_all_ = nullptr;
  HostWrites* host_writes_ = nullptr;
  DriverPatience patience_;
  std::array<Region, kRegions> regions_{};
  std::vector<std::vector<const Range*>> tables_;
};

}  // namespace neuron::chip

#endif
