// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/run_lock.h"

namespace neuron::core {

bool RunLock::try_lock_until(std::chrono::steady_clock::time_point deadline) {
  if (try_lock()) return true;
  waiters_.fetch_add(1);  // pairs with the load in unlock()
  bool locked;
  {
    std::unique_lock guard(mutex_);
    locked = freed_.wait_until(guard, deadline, [this] { return try_lock(); });
  }
  waiters_.fetch_sub(1);
  return locked;
}

void RunLock::wake() {
  { const std::lock_guard guard(mutex_); }
  // One is enough: who gets the lock will unlock it, and wakes the next one then.
  freed_.notify_one();
}

}  // namespace neuron::core
