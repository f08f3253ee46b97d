// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/fair_lock.h"

#include <algorithm>

namespace neuron::runtime {

bool FairLock::try_lock() {
  std::lock_guard guard(mutex_);
  if (!may_take()) return false;
  held_ = true;
  return true;
}

bool FairLock::lock(base::Deadline deadline) {
  std::unique_lock guard(mutex_);
  if (may_take()) {
    held_ = true;
    return true;
  }
  Waiter self;
  if (first_ == nullptr) burst_end_ = Clock::now() + kBurst;
  *last_ = &self;
  last_ = &self.next;
  // bounded: by the deadline.
  while (!self.granted) {
    // The first one looks again when the burst is over: its last thread may have left the lock
    // free.
    const bool looks_again = first_ == &self && Clock::now() < burst_end_;
    const Clock::time_point until =
        looks_again ? std::min(deadline.when(), burst_end_) : deadline.when();
    self.wake.wait_until(guard, until);
    if (self.granted) break;
    if (first_ == &self && !held_) {
      remove(&self);
      held_ = true;
      burst_end_ = Clock::now() + kBurst;
      return true;
    }
    if (Clock::now() >= deadline.when()) {
      remove(&self);
      // It may have been told of a free lock, which nobody will tell the next one.
      if (!held_ && first_ != nullptr) first_->wake.notify_one();
      return false;
    }
  }
  return true;
}

void FairLock::unlock() {
  std::lock_guard guard(mutex_);
  Waiter* next = first_;
  if (next == nullptr) {
    held_ = false;
    return;
  }
  const Clock::time_point now = Clock::now();
  if (now < burst_end_) {
    held_ = false;
    if (next->woken) return;  // It looks again by itself
    next->woken = true;
  } else {
    // The lock is handed over, not released.
    remove(next);
    next->granted = true;
    burst_end_ = now + kBurst;
  }
  next->wake.notify_one();
}

bool FairLock::has_waiters() {
  std::lock_guard guard(mutex_);
  return first_ != nullptr;
}

void FairLock::remove(Waiter* waiter) {
  Waiter** link = &first_;
  while (*link != waiter) link = &(*link)->next;
  *link = waiter->next;
  if (last_ == &waiter->next) last_ = link;
}

}  // namespace neuron::runtime
