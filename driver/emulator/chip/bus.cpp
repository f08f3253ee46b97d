// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/bus.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "driver/emulator/chip/fabric.h"

namespace neuron::chip {

void Bus::attach(uint64_t base, uint64_t size, BusTarget* target, const char* name) {
  const auto place =
      std::upper_bound(ranges_.begin(), ranges_.end(), base,
                       [](uint64_t value, const Range& range) { return value < range.base; });
  ranges_.insert(place, Range{base, size, target, name});
  first_ = host_ = nullptr;
  regions_.fill({});
  tables_.clear();
}

void Bus::seal() {
  std::vector<std::vector<const Range*>> inside(kRegions);
  for (const Range& range : ranges_) {
    if (range.base == 0) first_ = &range;
    if (range.base == layout_.host_base) {
      host_ = &range;
      continue;
    }
    const uint64_t last = (range.base + (range.size - 1)) >> kRegionShift;
    for (uint64_t at = range.base >> kRegionShift; at <= last; ++at) {
      inside[region_of(at << kRegionShift)].push_back(&range);
    }
  }
  for (size_t number = 0; number < kRegions; ++number) seal_region(number, inside[number]);
}

void Bus::seal_region(size_t number, const std::vector<const Range*>& ranges) {
  Region& region = regions_[number];
  if (ranges.empty()) return;
  if (ranges.size() == 1) {
    region.whole = ranges.front();
    return;
  }
  constexpr uint64_t kUnit = uint64_t{1} << kUnitShift;
  // Units that lie wholly in one of the ranges, if all are in the same 4 GiB.
  const uint64_t high = ranges.front()->base >> kRegionShift;
  uint64_t low = ~uint64_t{0};
  uint64_t end = 0;
  for (const Range* range : ranges) {
    if (range->base >> kRegionShift != high) return;
    if ((range->base + range->size - 1) >> kRegionShift != high) return;
    low = std::min(low, range->base >> kUnitShift);
    end = std::max(end, (range->base + range->size + kUnit - 1) >> kUnitShift);
  }
  std::vector<const Range*> table(end - low, nullptr);
  for (const Range* range : ranges) {
    for (uint64_t unit = (range->base + kUnit - 1) >> kUnitShift;
         (unit + 1) << kUnitShift <= range->base + range->size; ++unit) {
      table[unit - low] = range;
    }
  }
  region.first = static_cast<uint32_t>(low) & kUnitMask;
  region.units = static_cast<uint32_t>(table.size());
  tables_.push_back(std::move(table));
  region.table = tables_.back().data();
}

const Bus::Range* Bus::search(uint64_t address) const {
  auto next =
      std::upper_bound(ranges_.begin(), ranges_.end(), address,
                       [](uint64_t value, const Range& range) { return value < range.base; });
  return next == ranges_.begin() ? nullptr : &*--next;
}

const Bus::Range* Bus::find(uint64_t address, size_t length) const {
  const Range* range = nullptr;
  if (first_ != nullptr && address < first_->size) {
    range = first_;
  } else if (host_ != nullptr && layout_.is_host(address)) {
    range = host_;
  } else {
    const Region& region = regions_[region_of(address)];
    range = region.whole;
    const uint32_t unit = (static_cast<uint32_t>(address >> kUnitShift) & kUnitMask) - region.first;
    if (unit < region.units) range = region.table[unit];
    if (range == nullptr) range = search(address);
  }
  if (range == nullptr || length == 0) return nullptr;
  const uint64_t offset = address - range->base;
  if (offset >= range->size || length > range->size - offset) return nullptr;
  return range;
}

bool Bus::read(uint64_t address, std::span<std::byte> out, const Access& access) const {
  const Range* range = find(address, out.size());
  if (range != nullptr) [[likely]] {
    return target_of(*range, access.reach).read(address - range->base, out, access);
  }
  return is_routed(address) && fabric_->read(node_, address, out, access);
}

bool Bus::write(uint64_t address, std::span<const std::byte> in, const Access& access) const {
  const Range* range = find(address, in.size());
  if (range != nullptr) [[likely]] {
    if (!target_of(*range, access.reach).write(address - range->base, in, access)) return false;
    wrote({.address = address,
           .bytes = in.size(),
           .kind = HostWriteKind::kStore,
           .core = access.core,
           .engine = access.engine});
    return true;
  }
  return is_routed(address) && fabric_->write(node_, address, in, access);
}

bool Bus::read32(uint64_t address, uint32_t& value, const Access& access) const {
  std::array<std::byte, 4> bytes;
  if (!read(address, bytes, access)) return false;
  std::memcpy(&value, bytes.data(), 4);
  return true;
}

bool Bus::write32(uint64_t address, uint32_t value, const Access& access) const {
  std::array<std::byte, 4> bytes;
  std::memcpy(bytes.data(), &value, 4);
  return write(address, bytes, access);
}

std::byte* Bus::direct(uint64_t address, size_t length, Reach reach) const {
  const Range* range = find(address, length);
  if (range == nullptr) return nullptr;
  return target_of(*range, reach).direct(address - range->base, length);
}

std::byte* Bus::memory(uint64_t address, size_t length, Reach reach) const {
  if (!is_routed(address)) return direct(address, length, reach);
  return fabric_->direct(node_, address, length);
}

neuron_fault Bus::refusal(uint64_t address, uint32_t& id) const {
  id = 0;
  if (!is_routed(address)) return NEURON_FAULT_BUS;
  const Fabric::Refusal why = fabric_->refusal(node_, address);
  id = why.id;
  return why.code;
}

const char* Bus::name_of(uint64_t address) const {
  const Range* range = find(address, 1);
  return range == nullptr ? "unmapped" : range->name;
}

}  // namespace neuron::chip
