// SPDX-License-Identifier: Apache-2.0
//
// Counts the executions that have written a tensor, and waits for a number of them.
// Callers: executor (counts), nrt_tensor_check_output_completion (waits). Thread-safe: yes.
// Counting is one atomic addition while nobody waits. Waits end at their deadline; a wait without a
// deadline continues in bounded steps.
#ifndef RUNTIME_TENSOR_COMPLETION_H
#define RUNTIME_TENSOR_COMPLETION_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "driver/base/deadline.h"

namespace neuron::runtime {

class CompletionHub;

class CompletionCounter {
 public:
  void reset() { count_.store(0, std::memory_order_relaxed); }
  uint64_t value() const { return count_.load(std::memory_order_acquire); }

 private:
  friend class CompletionHub;
  std::atomic<uint64_t> count_{0};
};

class CompletionHub {
 public:
  void add(CompletionCounter& counter, uint64_t executions = 1) {
    // Sequentially consistent with waiters_ below: either the waiter sees the count or this thread
    // sees the waiter.
    counter.count_.fetch_add(executions);
    if (waiters_.load() != 0) wake();
  }
  // False: the deadline passed first.
  bool wait(const CompletionCounter& counter, uint64_t expected, base::Deadline deadline);

 private:
  void wake();

  std::atomic<uint32_t> waiters_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace neuron::runtime

#endif
