// SPDX-License-Identifier: Apache-2.0
//
// The turn of a core: its holder may touch everything of the core.
// Callers: loading, executions, unloading, reports. Thread-safe: take(). Owns the turn until it is
// destroyed. Fails: NRT_TIMEOUT when others have had the core for the core's turn limit.
#ifndef RUNTIME_DEVICE_CORE_TURN_H
#define RUNTIME_DEVICE_CORE_TURN_H

#include <utility>

#include "runtime/device/core.h"

namespace neuron::runtime {

class CoreTurn {
 public:
  static Result<CoreTurn> take(Core& core);
  CoreTurn(CoreTurn&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  CoreTurn& operator=(CoreTurn&&) = delete;
  ~CoreTurn() {
    if (core_ != nullptr) core_->turn.unlock();
  }

 private:
  explicit CoreTurn(Core& core) : core_(&core) {}
  Core* core_;
};

}  // namespace neuron::runtime

#endif
