// SPDX-License-Identifier: Apache-2.0
//
// A first-come, first-served lock: executions on one core take turns.
// Callers: CoreTurn. Thread-safe: yes. The uncontended path is two short critical sections and no
// system call. Fails: lock() gives up at its deadline and returns false; a waiter that gives up
// leaves the queue.
#ifndef RUNTIME_DEVICE_FAIR_LOCK_H
#define RUNTIME_DEVICE_FAIR_LOCK_H

#include <condition_variable>
#include <mutex>

#include "driver/base/deadline.h"

namespace neuron::runtime {

class FairLock {
 public:
  bool lock(base::Deadline deadline);
  // Needs no deadline: the uncontended path reads no clock.
  bool try_lock();
  void unlock();
  // True while a thread waits in lock().
  bool has_waiters();

 private:
  struct Waiter {
    std::condition_variable wake;
    bool granted = false;
    Waiter* next = nullptr;
  };
  std::mutex mutex_;  // all below
  bool held_ = false;
  Waiter* first_ = nullptr;
  Waiter** last_ = &first_;
};

}  // namespace neuron::runtime

#endif
