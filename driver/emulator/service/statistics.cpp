// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/statistics.h"

namespace neuron::service {
namespace {

// Cores beyond the fourth are in the extension.
const uint64_t* core_counter(const std::byte* base, uint32_t core, uint32_t index) {
  auto* block = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(base));
  if (core >= NDS_MAX_NEURONCORE_COUNT) {
    return NDS_EXT_NEURONCORE_NC_DATA(block, core - NDS_MAX_NEURONCORE_COUNT) + index;
  }
  if (index < NDS_NC_COUNTER_COUNT) return NDS_NEURONCORE_COUNTERS(block, core) + index;
  return NDS_EXT_NEURONCORE_COUNTERS(block, core) + (index - NDS_NC_COUNTER_COUNT);
}

}  // namespace

void Statistics::fold(const std::byte* block, unsigned cores) {
  for (uint32_t core = 0; core < cores; ++core) {
    for (uint32_t index = 0; index < NDS_EXT_NC_COUNTER_LAST; ++index) {
      if (const uint64_t value =
              __atomic_load_n(core_counter(block, core, index), __ATOMIC_RELAXED)) {
        add(results[core][index], value);
      }
    }
  }
}

void Statistics::count_reset(uint32_t core_map, unsigned cores, bool failed) {
  reset_failed = failed;
  for (uint32_t core = 0; core < cores; ++core) {
    if (!(core_map >> core & 1)) continue;
    add(reset_requests[core], 1);
    if (failed) add(reset_failures[core], 1);
  }
}

}  // namespace neuron::service
