// SPDX-License-Identifier: Apache-2.0
// Storage for the nodes of driver/core's allocators, which allocate nothing themselves.
//
// Callers: DeviceMemory and HostArena, under their lock. Owns the nodes until it is destroyed,
// which must come after the pools that use them.
#ifndef DRIVER_EMULATOR_SERVICE_NODE_STORE_H
#define DRIVER_EMULATOR_SERVICE_NODE_STORE_H

#include <memory>
#include <vector>

#include "driver/core/pool.h"

namespace neuron::service {

class NodeStore {
 public:
  static constexpr uint32_t kBatch = 512;
  nd_block* add() {
    batches_.push_back(std::make_unique<nd_block[]>(kBatch));
    return batches_.back().get();
  }

 private:
  std::vector<std::unique_ptr<nd_block[]>> batches_;
};

}  // namespace neuron::service

#endif
