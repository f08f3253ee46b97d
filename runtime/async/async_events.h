// SPDX-License-Identifier: Apache-2.0
//
// The waiters for the requests of one queue: threads, and descriptors that become readable.
// Callers: waiting calls (any thread), the queue's worker (fire). Thread-safe: yes. While nobody
// waits, fire() is one load. Owns duplicates of the descriptors: it does no harm if the owner
// closes a descriptor too early or its number is used again.
// Fails: NRT_INVALID for a descriptor that is not an eventfd, NRT_RESOURCE when descriptors run
// out.
#ifndef RUNTIME_ASYNC_ASYNC_EVENTS_H
#define RUNTIME_ASYNC_ASYNC_EVENTS_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "driver/base/deadline.h"
#include "runtime/base/error.h"

namespace neuron::runtime {

class AsyncEvents {
 public:
  using Progress = std::atomic<uint64_t>;  // number of the last completed request

  AsyncEvents() = default;
  ~AsyncEvents();
  AsyncEvents(const AsyncEvents&) = delete;
  AsyncEvents& operator=(const AsyncEvents&) = delete;

  // False: the deadline passed first.
  bool wait(const Progress& progress, uint64_t number, base::Deadline deadline);
  // Adds 1 to the eventfd when `number` has completed, at once if it has.
  Result<void> add(const Progress& progress, uint64_t number, int event);
  void remove(uint64_t number);
  // From now on adds each number of completions to the eventfd; -1 ends this.
  Result<void> follow(const Progress& progress, int event);

  // After each change of `progress`, which was sequentially consistent: either fire() sees the
  // waiter, or a waiter that begins to wait sees the change.
  void fire(const Progress& progress) {
    if (interested_.load() != 0) fire_slowly(progress);
  }

 private:
  struct Single {
    uint64_t number;
    int descriptor;
  };
  void fire_slowly(const Progress& progress);

  std::atomic<uint32_t> interested_{0};  // threads and descriptors
  std::mutex mutex_;                     // all below
  std::condition_variable changed_;
  std::vector<Single> singles_;
  int followed_ = -1;
  uint64_t told_ = 0;
};

}  // namespace neuron::runtime

#endif
