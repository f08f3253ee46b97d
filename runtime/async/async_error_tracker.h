// SPDX-License-Identifier: Apache-2.0
//
// Collects the errors of requests of the older asynchronous interface.
// Callers: workers (add), nrta_error_tracker_get_list. Thread-safe: yes; a list that take() gave
// stays until the thread that has it takes again. Owns its lists. Cannot fail: beyond kLimit errors
// the oldest are dropped; an error for which no memory is left is dropped with a line in the log.
#ifndef RUNTIME_ASYNC_ASYNC_ERROR_TRACKER_H
#define RUNTIME_ASYNC_ASYNC_ERROR_TRACKER_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "nrt/nrt_status.h"

namespace neuron::runtime {

class AsyncErrorTracker {
 public:
  static constexpr size_t kLimit = 65536;

  // As the C interface lays it out.
  struct Entry {
    uint64_t sequence;
    uint64_t status;
  };

  void add(uint64_t sequence, NRT_STATUS status) noexcept;
  // The errors added since the last call of any thread.
  std::span<const Entry> take();

 private:
  std::mutex mutex_;  // all below
  std::deque<Entry> fresh_;
  std::unordered_map<std::thread::id, std::vector<Entry>> taken_;
};

}  // namespace neuron::runtime

#endif
