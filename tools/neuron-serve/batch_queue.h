// SPDX-License-Identifier: Apache-2.0
//
// Rows that wait for a model, and the decision when a batch of them is worth an execution.
// Concept: a batch starts when it is full; when as many rows have come as the last batch had (so a
// crowd is waited for and a single client is not); when nobody has come for a tenth of the budget;
// or when the oldest has to start to be answered within the budget.
// Callers: the network thread admits and pushes; executors take. Thread-safe: all.
// Owns: jobs that wait. Fails: admit() says false when there is no room: the caller answers 503.
#ifndef TOOLS_NEURON_SERVE_BATCH_QUEUE_H
#define TOOLS_NEURON_SERVE_BATCH_QUEUE_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "tools/neuron-serve/message/job.h"

namespace neuron::serve {

class BatchQueue {
 public:
  BatchQueue(uint32_t batch, size_t limit, std::chrono::microseconds budget);

  // Takes room for rows that are going to be pushed.
  bool admit(uint32_t rows);
  // Gives it back: they could not be pushed.
  void withdraw(uint32_t rows) { admitted_.fetch_sub(rows, std::memory_order_relaxed); }
  // Jobs that were admitted; empties the list. False: the queue is closed, and they are still in
  // the list.
  bool push(Jobs& jobs);

  // Takes a job out whose client is gone; false: it does not wait here, or not any more.
  bool cancel(const Job& job);

  // The next batch, and those whose deadline has passed. Both empty: nothing came for a second, or
  // the queue is closed and empty, which closed() tells apart.
  struct Batch {
    Jobs jobs, late;
    uint32_t rows = 0;
  };
  Batch take();
  // What an execution takes, for the decision.
  void executed(std::chrono::nanoseconds time);

  // No more pushes; take() gives out what waits without waiting for more.
  void close();
  void open();
  bool closed() const;
  // Everything that waits, for a caller that answers it otherwise.
  Jobs clear();

  size_t waiting_rows() const { return admitted_.load(std::memory_order_relaxed); }
  uint32_t batch() const { return batch_; }
  size_t limit() const { return limit_; }

 private:
  Clock::time_point start_by() const;  // holds mutex_
  void forget(const Job& job);         // holds mutex_

  const uint32_t batch_;
  const size_t limit_;
  const std::chrono::nanoseconds budget_;
  std::atomic<size_t> admitted_{0};  // a count that orders nothing

  mutable std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  size_t rows_ = 0;   // of jobs_
  size_t crowd_ = 1;  // rows of the last batch
  Clock::time_point last_push_;
  std::chrono::nanoseconds execution_{0};  // smoothed
  bool closed_ = false;
};

}  // namespace neuron::serve

#endif
