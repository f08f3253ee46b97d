// SPDX-License-Identifier: Apache-2.0
// The lock of an execution group: one atomic word while there is no contention.
//
// Locking and unlocking cost one locked instruction each. A waiter that has waited for a
// millisecond is *starving*: the lock then goes to a starving waiter, and threads that only try are
// refused, so that threads that take the lock again and again cannot keep it out. Thread sanitizers
// understand this lock. They do not intercept pthread_mutex_clocklock, on which std::timed_mutex is
// built. Callers: any thread; not recursive. Fails: try_lock_until gives false at its deadline;
// there is no wait without one.
#ifndef DRIVER_EMULATOR_NEURONCORE_GROUP_RUN_LOCK_H
#define DRIVER_EMULATOR_NEURONCORE_GROUP_RUN_LOCK_H

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace neuron::core {

class RunLock {
 public:
  // False while the lock is held, and while a waiter is starving. The caller may still queue work:
  // a starving waiter drains the queue when it gets the lock, and also when it times out.
  bool try_lock() { return starving_.load() == 0 && take(); }
  // Ignores starving waiters. Only for a thread to which the holder is lending the lock.
  bool try_lock_first() { return take(); }
  bool try_lock_until(std::chrono::steady_clock::time_point deadline);
  template <class Duration>
  bool try_lock_for(Duration patience) {
    return try_lock() || try_lock_until(std::chrono::steady_clock::now() + patience);
  }
  // Sequentially consistent. A waiter counts itself and then tries once more: either this thread
  // sees the waiter, or the waiter sees the lock free. What the caller loads behind unlock() (is
  // there mail?) is ordered behind it in the same way.
  void unlock() {
    held_.exchange(false);
    if (waiters_.load() != 0) wake();
  }
  // A starving waiter is entitled to the lock: threads that only try are refused.
  bool is_owed() const { return starving_.load() != 0; }

 private:
  bool take() {
    bool free = false;
    return !held_.load() &&  // a plain load first: a held lock is not contended for
           held_.compare_exchange_strong(free, true);  // pairs with the exchange in unlock()
  }
  void wake();

  std::atomic<bool> held_ = false;
  std::atomic<uint32_t> waiters_ = 0;
  std::atomic<uint32_t> starving_ = 0;  // waiters that are starving
  std::mutex mutex_;  // orders a waiter's last look at held_ with the notification
  std::condition_variable freed_;
};

}  // namespace neuron::core

#endif
