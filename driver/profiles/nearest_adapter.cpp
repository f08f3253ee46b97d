// SPDX-License-Identifier: Apache-2.0
#include "driver/profiles/nearest_adapter.h"

#include <map>

namespace neuron::profiles {
namespace {

using Indexes = std::vector<size_t>;

template <class Near>
Indexes select(const std::vector<AdapterPlace>& adapters, Near&& near) {
  Indexes found;
  for (size_t i = 0; i < adapters.size(); ++i) {
    if (near(adapters[i])) found.push_back(i);
  }
  return found;
}

Indexes nearest(const ChipPlace& chip, const std::vector<AdapterPlace>& adapters) {
  Indexes found = select(adapters, [&](const AdapterPlace& adapter) {
    return adapter.domain == chip.domain && adapter.bus == chip.bus;
  });
  if (!found.empty()) return found;
  found = select(adapters, [&](const AdapterPlace& adapter) {
    return chip.numa_node >= 0 && adapter.numa_node == chip.numa_node;
  });
  return found.empty() ? select(adapters, [](const AdapterPlace&) { return true; }) : found;
}

}  // namespace

void assign_adapters(std::vector<ChipPlace>& chips, const std::vector<AdapterPlace>& adapters) {
  if (adapters.empty()) return;
  std::map<Indexes, Indexes> groups;  // adapters: the chips that share them
  for (size_t i = 0; i < chips.size(); ++i) {
    if (chips[i].adapter < 0) groups[nearest(chips[i], adapters)].push_back(i);
  }
  for (const auto& [shared, sharers] : groups) {
    for (size_t rank = 0; rank < sharers.size(); ++rank) {
      const size_t chosen = shared[rank * shared.size() / sharers.size()];
      chips[sharers[rank]].adapter = static_cast<int8_t>(chosen);
    }
  }
}

}  // namespace neuron::profiles
