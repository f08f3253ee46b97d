// SPDX-License-Identifier: Apache-2.0
// Counters of one device that outlive processes: what their datastores held when they were
// released, and resets.
//
// Callers: Device and Attributes, with the device's mutex held. A value. Cannot fail.
#ifndef DRIVER_EMULATOR_SERVICE_STATISTICS_H
#define DRIVER_EMULATOR_SERVICE_STATISTICS_H

#include <array>
#include <cstddef>
#include <cstdint>

#include "driver/core/accounting.h"
#include "driver/core/chip.h"
#include "uapi/neuron_datastore.h"

namespace neuron::service {

struct Statistics {
  using PerCore = std::array<nd_counter, ND_MAX_CORES>;

  // By core and counter of the datastore.
  std::array<std::array<nd_counter, NDS_EXT_NC_COUNTER_LAST>, ND_MAX_CORES> results{};
  PerCore reset_requests{};
  PerCore reset_failures{};
  bool reset_failed = false;  // the last one

  static void add(nd_counter& counter, uint64_t amount) {
    counter.total += amount;
    counter.present = amount;
  }
  // Adds the counters of a datastore that is about to be cleared. The process may still write.
  void fold(const std::byte* block, unsigned cores);
  // A reset of the cores in the map, all of them or some, that has ended.
  void count_reset(uint32_t core_map, unsigned cores, bool failed);
};

}  // namespace neuron::service

#endif
