// SPDX-License-Identifier: Apache-2.0
// The first failure from which the ranks of a communicator cannot continue.
//
// Callers: the threads of the bootstrap and of the communicator note failures; executors check for
// one while they wait. Thread-safe: yes. Cannot fail.
#ifndef CCOM_COMMUNICATOR_FIRST_FAILURE_H
#define CCOM_COMMUNICATOR_FIRST_FAILURE_H

#include <atomic>
#include <mutex>

#include "ccom/base/error.h"

namespace neuron::ccom {

class FirstFailure {
 public:
  // For each call: whether there is a failure. Its sentence may not be visible yet.
  bool there() const { return status_.load(std::memory_order_relaxed) != 0; }
  // CCOM_SUCCESS: none.
  ccom_status_t status() const {
    // Pairs with the release of note().
    return static_cast<ccom_status_t>(status_.load(std::memory_order_acquire));
  }
  Error error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  // Keeps only the first failure.
  void note(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!there()) {
      error_ = error;
      // Publishes the failure. Pairs with the acquire of status().
      status_.store(error.status, std::memory_order_release);
    }
  }
  // The status, for an executor that checks it while it waits.
  const std::atomic<uint32_t>& flag() const { return status_; }

 private:
  mutable std::mutex mutex_;
  Error error_;
  std::atomic<uint32_t> status_{0};  // ccom_status_t of error_
};

}  // namespace neuron::ccom

#endif
