// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/completion.h"

namespace neuron::runtime {

void CompletionHub::wake() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool CompletionHub::wait(const CompletionCounter& counter, uint64_t expected,
                         base::Deadline deadline) {
  if (counter.value() >= expected) return true;
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1);
  bool reached = counter.count_.load() >= expected;
  while (!reached && !deadline.expired()) {
    changed_.wait_until(lock, deadline.when());
    reached = counter.count_.load() >= expected;
  }
  waiters_.fetch_sub(1);
  return reached;
}

}  // namespace neuron::runtime
