// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/bus.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace neuron::chip {

void Bus::attach(uint64_t base, uint64_t size, BusTarget* target, const char* name) {
  const auto place =
      std::upper_bound(ranges_.begin(), ranges_.end(), base,
                       [](uint64_t value, const Range& range) { return value < range.base; });
  ranges_.insert(place, Range{base, size, target, name});
  rebuild_table();
}

void Bus::rebuild_table() {
  std::fill(units_.begin(), units_.end(), nullptr);
  first_ = nullptr;
  last_ = ranges_.empty() ? nullptr : &ranges_.back();
  for (const Range& range : ranges_) {
    if (range.base == 0) first_ = &range;
    if (range.base < NEURON_V2_BAR0_DEVICE_BASE ||
        range.base >= NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_BAR0_SIZE) {
      continue;
    }
    const uint64_t begin = range.base - NEURON_V2_BAR0_DEVICE_BASE;
    const uint64_t end = std::min<uint64_t>(begin + range.size, NEURON_V2_BAR0_SIZE);
    const uint64_t unit = uint64_t{1} << kUnitShift;
    for (uint64_t u = (begin + unit - 1) >> kUnitShift; (u + 1) << kUnitShift <= end; ++u) {
      units_[u] = &range;
    }
  }
}

const Bus::Range* Bus::search(uint64_t address) const {
  auto next =
      std::upper_bound(ranges_.begin(), ranges_.end(), address,
                       [](uint64_t value, const Range& range) { return value < range.base; });
  return next == ranges_.begin() ? nullptr : &*--next;
}

const Bus::Range* Bus::find(uint64_t address, size_t length) const {
  const Range* range = nullptr;
  const uint64_t window = address - NEURON_V2_BAR0_DEVICE_BASE;
  if (first_ != nullptr && address < first_->size) {
    range = first_;
  } else if (window < NEURON_V2_BAR0_SIZE) {
    range = units_[window >> kUnitShift];
    if (range == nullptr) range = search(address);
  } else if (last_ != nullptr && address >= last_->base) {
    range = last_;
  } else {
    range = search(address);
  }
  if (range == nullptr || length == 0) return nullptr;
  const uint64_t offset = address - range->base;
  if (offset >= range->size || length > range->size - offset) return nullptr;
  return range;
}

bool Bus::read(uint64_t address, std::span<std::byte> out, const Access& access) const {
  const Range* range = find(address, out.size());
  return range != nullptr && range->target->read(address - range->base, out, access);
}

bool Bus::write(uint64_t address, std::span<const std::byte> in, const Access& access) const {
  const Range* range = find(address, in.size());
  return range != nullptr && range->target->write(address - range->base, in, access);
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

std::byte* Bus::direct(uint64_t address, size_t length) const {
  const Range* range = find(address, length);
  return range == nullptr ? nullptr : range->target->direct(address - range->base, length);
}

const char* Bus::name_of(uint64_t address) const {
  const Range* range = find(address, 1);
  return range == nullptr ? "unmapped" : range->name;
}

}  // namespace neuron::chip
