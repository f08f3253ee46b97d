// SPDX-License-Identifier: Apache-2.0
// Who holds an execution group: one atomic word when nobody else wants it.
//
// Unlike std::timed_mutex it costs one locked instruction each way, and thread sanitizers
// understand it (they do not intercept pthread_mutex_clocklock, on which the library's timed mutex
// is built). Who has waited for a millisecond goes first: threads that take it again and again
// keep nobody out. Callers: any thread; not recursive. Fails: try_lock_until gives false at its
// deadline; there is no wait without one.
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
  // False, too, while somebody has waited for too long. Who then leaves work to the holder leaves
  // it to that one, who has to look for such work even if it waits in vain.
  bool try_lock() { return overdue_.load() == 0 && take(); }
  // Past those who wait: for who tries only while a holder makes room for it.
  bool try_lock_first() { return take(); }
  bool try_lock_until(std::chrono::steady_clock::time_point deadline);
  template <class Duration>
  bool try_lock_for(Duration patience) {
    return try_lock() || try_lock_until(std::chrono::steady_clock::now() + patience);
  }
  // Sequentially consistent: either this thread sees the waiter, or the waiter, who counts itself
  // before it tries once more, sees the lock free. What the caller loads behind unlock() (is there
  // mail?) is ordered behind it in the same way.
  void unlock() {
    held_.exchange(false);
    if (waiters_.load() != 0) wake();
  }
  // Threads that only try are refused at present.
  bool is_owed() const { return overdue_.load() != 0; }

 private:
  bool take() {
    bool free = false;
    return !held_.load() &&  // a plain load first: a held lock is not contended for
           held_.compare_exchange_strong(free, true);  // pairs with the exchange in unlock()
  }
  void wake();

  std::atomic<bool> held_ = false;
  std::atomic<uint32_t> waiters_ = 0;
  std::atomic<uint32_t> overdue_ = 0;  // of them
  std::mutex mutex_;                   // orders a waiter's last look at held_ with the notification
  std::condition_variable freed_;
};

}  // namespace neuron::core

#endif
