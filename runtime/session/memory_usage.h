// SPDX-License-Identifier: Apache-2.0
//
// The memory in use of an HBM, by category, as the driver lists it. Callers: memory statistics,
// reports. Thread-safe: yes. Fails: NRT_FAILURE with the driver's sentence.
#ifndef RUNTIME_SESSION_MEMORY_USAGE_H
#define RUNTIME_SESSION_MEMORY_USAGE_H

#include <array>

#include "runtime/device/device.h"

namespace neuron::runtime {

struct MemoryUsage {
  struct Category {
    uint64_t bytes = 0;
    uint64_t allocations = 0;
  };
  uint64_t total = 0;
  std::array<Category, NEURON_MEMALLOC_TYPE_MAX> categories{};
};

Result<MemoryUsage> read_memory_usage(Device& device, uint32_t hbm);

// "model_code", "tensors" ...: the names of the driver's own statistics.
const char* memory_category_name(uint32_t category);

}  // namespace neuron::runtime

#endif
