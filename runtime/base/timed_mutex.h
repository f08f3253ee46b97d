// SPDX-License-Identifier: Apache-2.0
// A mutex that is waited for until a deadline of the monotonic clock.
//
// std::timed_mutex is built on pthread_mutex_clocklock, which thread sanitizers do not know: they
// report its unlocking as that of a mutex nobody holds. For what threads wait for in milliseconds,
// not for fast paths. Callers: any thread, through std::unique_lock; not recursive, in no order.
// Fails: try_lock_for gives false when its time is over; there is no wait without one.
#ifndef RUNTIME_BASE_TIMED_MUTEX_H_
#define RUNTIME_BASE_TIMED_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "runtime/base/deadline.h"

namespace neuron::runtime {

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
    freed_.notify_one();  // under the lock: who gets it next may destroy this
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

}  // namespace neuron::runtime

#endif  // RUNTIME_BASE_TIMED_MUTEX_H_
