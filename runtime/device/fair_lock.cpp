// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/fair_lock.h"

namespace neuron::runtime {

bool FairLock::try_lock() {
  std::lock_guard guard(mutex_);
  if (held_) return false;
  held_ = true;
  return true;
}

bool FairLock::lock(base::Deadline deadline) {
  std::unique_lock guard(mutex_);
  if (!held_) {
    held_ = true;
    return true;
  }
  Waiter self;
  *last_ = &self;
  last_ = &self.next;
  while (!self.granted) {
    if (self.wake.wait_until(guard, deadline.when()) == std::cv_status::timeout && !self.granted) {
      Waiter** link = &first_;
      while (*link != &self) link = &(*link)->next;
      *link = self.next;
      if (last_ == &self.next) last_ = link;
      return false;
    }
  }
  return true;
}

void FairLock::unlock() {
  std::lock_guard guard(mutex_);
  if (first_ == nullptr) {
    held_ = false;
    return;
  }
  // The lock is handed over, not released: a thread that asks now cannot overtake the waiters.
  Waiter* next = first_;
  first_ = next->next;
  if (first_ == nullptr) last_ = &first_;
  next->granted = true;
  next->wake.notify_one();
}

bool FairLock::has_waiters() {
  std::lock_guard guard(mutex_);
  return first_ != nullptr;
}

}  // namespace neuron::runtime
