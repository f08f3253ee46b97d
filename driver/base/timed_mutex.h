// SPDX-License-Identifier: Apache-2.0
// A mutex whose waits end at a deadline of the monotonic clock.
//
// std::timed_mutex is built on pthread_mutex_clocklock, which thread sanitizers do not know: they
// report its unlocking as that of a mutex nobody holds. For waits of milliseconds, not for fast
// paths. Callers: any thread, through std::unique_lock; not recursive, not fair. Fails:
// try_lock_for gives false when its time is over; there is no wait without one.
#ifndef DRIVER_BASE_TIMED_MUTEX_H
#define DRIVER_BASE_TIMED_MUTEX_H

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "driver/base/deadline.h"

namespace neuron::base {

class TimedMutex {
 public:
  bool try_lock() {
    const std::lock_guard lock(mutex_);
    return take();
  }

  bool try_lock_for(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return freed_.wait_until(lock, Deadline::after(patience).when(), [this] { return take(); });
  }

  void unlock() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    freed_.notify_one();  // under the lock: its next holder may destroy this
  }

 private:
  bool take() {
    if (held_) return false;
    held_ = true;
    return true;
  }

  std::mutex mutex_;  // held_
  std::condition_variable freed_;
  bool held_ = false;
};

}  // namespace neuron::base

#endif
