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
  CoreTurn(CoreTurn&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), waited_(other.waited_) {}
  CoreTurn& operator=(CoreTurn&&) = delete;
  // Whether another thread had the core when this one asked for it.
  bool waited() const { return waited_; }
  ~CoreTurn() {
    if (core_ != nullptr) core_->turn.unlock();
  }

 private:
  CoreTurn(Core& core, bool waited) : core_(&core), waited_(waited) {}
  Core* core_;
  bool waited_;
};

}  // namespace neuron::runtime

#endif
