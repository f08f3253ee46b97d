// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/run_lock.h"

#include <algorithm>

namespace neuron::core {
namespace {

// How long other threads may take the lock before a waiter is starving. Without this time, each
// handover would cost two context switches.
constexpr std::chrono::milliseconds kPatience{1};

}  // namespace

bool RunLock::try_lock_until(std::chrono::steady_clock::time_point deadline) {
  if (try_lock()) return true;
  waiters_.fetch_add(1);  // pairs with the load in unlock()
  bool locked;
  {
    std::unique_lock guard(mutex_);
    const auto patient = std::min(deadline, std::chrono::steady_clock::now() + kPatience);
    locked = freed_.wait_until(guard, patient, [this] { return try_lock(); });
    if (!locked && patient < deadline) {
      starving_.fetch_add(1);
      locked = freed_.wait_until(guard, deadline, [this] { return take(); });
      starving_.fetch_sub(1);
      // Other waiters were woken for a free lock and have left it to this one.
      if (!locked) freed_.notify_all();
    }
  }
  waiters_.fetch_sub(1);
  return locked;
}

void RunLock::wake() {
  bool starving;
  {
    const std::lock_guard guard(mutex_);
    starving = starving_.load(std::memory_order_relaxed) != 0;  // changes under the mutex only
  }
  // One waiter is enough: it wakes the next when it unlocks. But while a waiter is starving, the
  // woken waiter may have to leave it the lock.
  if (starving) {
    freed_.notify_all();
  } else {
    freed_.notify_one();
  }
}

}  // namespace neuron::core
