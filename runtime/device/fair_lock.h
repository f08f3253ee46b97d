// SPDX-License-Identifier: Apache-2.0
//
// A lock that is granted in the order of asking: executions on one core take turns.
// Callers: executor. Thread-safe: yes. The uncontended path is two short critical sections and no
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
  // The deadline is only computed (a clock read) when somebody holds the lock.
  bool try_lock();
  void unlock();
  // Whether somebody waits in lock() now.
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
