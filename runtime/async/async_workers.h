// SPDX-License-Identifier: Apache-2.0
//
// The threads that perform asynchronous requests: units that have work wait in a list, and each
// worker takes one at a time.
// Callers: AsyncQueues. Thread-safe: all but start() and stop(). At most `limit` threads, made as
// they are needed; all signals are blocked in them. An idle thread polls the list for some
// microseconds, then sleeps. Owns the threads; stop() joins them when what they are doing is done.
// Borrows the units. Fails: start() with NRT_RESOURCE if the host gives no thread at all.
#ifndef RUNTIME_ASYNC_ASYNC_WORKERS_H
#define RUNTIME_ASYNC_ASYNC_WORKERS_H

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::runtime {

class AsyncUnit;

class AsyncWorkers {
 public:
  // Performs requests of the unit until it is empty (false) or others should have their turn
  // (true).
  using Work = std::function<bool(AsyncUnit&)>;

  AsyncWorkers(unsigned limit, Work work) : work_(std::move(work)), limit_(limit) {}
  ~AsyncWorkers() { stop(); }
  AsyncWorkers(const AsyncWorkers&) = delete;
  AsyncWorkers& operator=(const AsyncWorkers&) = delete;

  // The first thread; without it nothing would be performed.
  Result<void> start();
  void ready(AsyncUnit& unit) noexcept;
  // Raises the limit of threads; it never falls.
  void raise_limit(unsigned limit) {
    std::lock_guard lock(mutex_);
    limit_ = std::max(limit_, limit);
  }
  // True while units wait for a worker. A worker that has had one unit for long should then give
  // way.
  bool others_wait() const { return waiting_.load(std::memory_order_relaxed) != 0; }
  void stop() noexcept;

 private:
  void run();
  bool add_thread() noexcept;
  AsyncUnit* take();

  const Work work_;
  // Units in the list. Relaxed: a hint to those without the lock.
  std::atomic<unsigned> waiting_{0};
  std::mutex mutex_;  // all below
  unsigned limit_;
  std::condition_variable changed_;
  AsyncUnit* first_ = nullptr;
  AsyncUnit** last_ = &first_;
  unsigned looking_ = 0;  // idle and awake
  unsigned sleeping_ = 0;
  unsigned woken_ = 0;  // told to wake up, not yet awake
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace neuron::runtime

#endif
