// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/group/run_lock.h"

#include <algorithm>

namespace neuron::core {
namespace {

// How long others may take the lock past somebody who waits: without that, each change of hands
// would cost two switches of threads.
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
      overdue_.fetch_add(1);
      locked = freed_.wait_until(guard, deadline, [this] { return take(); });
      overdue_.fetch_sub(1);
      // Others were woken for a lock that is free and have left it to this one.
      if (!locked) freed_.notify_all();
    }
  }
  waiters_.fetch_sub(1);
  return locked;
}

void RunLock::wake() {
  bool overdue;
  {
    const std::lock_guard guard(mutex_);
    overdue = overdue_.load(std::memory_order_relaxed) != 0;  // changes under the mutex only
  }
  // One is enough: who gets the lock will unlock it, and wakes the next one then. But it must not
  // be one that has to leave it to another.
  if (overdue)
    freed_.notify_all();
  else
    freed_.notify_one();
}

}  // namespace neuron::core
