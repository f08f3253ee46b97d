// SPDX-License-Identifier: Apache-2.0
//
// What the tests of asynchronous queues share. Callers: tests of this folder, any thread.
#ifndef TESTS_SYSTEM_API_ASYNC_SUPPORT_H
#define TESTS_SYSTEM_API_ASYNC_SUPPORT_H

#include <gtest/gtest.h>
#include <nrt/nrt_async.h>

#include <chrono>
#include <thread>

namespace neuron::test {

inline constexpr NRT_STATUS kUnwritten = static_cast<NRT_STATUS>(-77);

// A status word that nobody has written yet.
struct Status {
  NRT_STATUS word = kUnwritten;
  NRT_STATUS load() const { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
};

// Asks until the request has completed; false when the limit has passed.
inline bool finish(nrta_seq_t seq, std::chrono::seconds limit = std::chrono::seconds(20)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  bool done = false;
  while (nrta_is_completed(seq, &done) == NRT_SUCCESS && !done) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return done;
}

}  // namespace neuron::test

#endif
