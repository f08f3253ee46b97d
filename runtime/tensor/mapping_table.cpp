// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/mapping_table.h"

#include <mutex>

namespace neuron::runtime {

void MappingTable::add(const void* start, uint64_t size) {
  std::unique_lock lock(mutex_);
  ranges_[reinterpret_cast<uint64_t>(start)] = size;
}

void MappingTable::remove(const void* start) {
  std::unique_lock lock(mutex_);
  ranges_.erase(reinterpret_cast<uint64_t>(start));
}

std::optional<MappingTable::Range> MappingTable::find(uint64_t address, uint64_t size) const {
  std::shared_lock lock(mutex_);
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return std::nullopt;
  const auto& [start, length] = *std::prev(after);
  const uint64_t offset = address - start;
  if (offset > length || size > length - offset) return std::nullopt;
  return Range{start, length};
}

}  // namespace neuron::runtime
