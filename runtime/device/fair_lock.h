// SPDX-License-Identifier: Apache-2.0
//
// A lock for which threads wait in the order of asking: executions on one core take turns.
//
// Handing the lock to a thread that sleeps costs more than a short execution. So threads that run
// may take it again for kBurst, from when another one got it or began to wait. Then it is handed to
// who has waited longest. Callers: CoreTurn. Thread-safe: yes. The uncontended path is two short
// critical sections and no system call. Fails: lock() gives up at its deadline and returns false; a
// waiter that gives up leaves the queue.
#ifndef RUNTIME_DEVICE_FAIR_LOCK_H
#define RUNTIME_DEVICE_FAIR_LOCK_H

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "driver/base/deadline.h"

namespace neuron::runtime {

class FairLock {
 public:
  // Tens of the shortest executions, and much less than anyone would notice.
  static constexpr std::chrono::microseconds kBurst{200};

  bool lock(base::Deadline deadline);
  // Needs no deadline: the uncontended path reads no clock.
  bool try_lock();
  void unlock();
  // True while a thread waits in lock().
  bool has_waiters();

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    std::condition_variable wake;
    bool granted = false;
    bool woken = false;  // It was told once that the lock is free
    Waiter* next = nullptr;
  };
  // All under mutex_.
  bool may_take() const { return !held_ && (first_ == nullptr || Clock::now() < burst_end_); }
  void remove(Waiter* waiter);

  std::mutex mutex_;  // all below
  bool held_ = false;
  Clock::time_point burst_end_;  // While threads wait
  Waiter* first_ = nullptr;
  Waiter** last_ = &first_;
};

}  // namespace neuron::runtime

#endif
