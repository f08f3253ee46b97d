// SPDX-License-Identifier: Apache-2.0
//
// The host's time of an event, from one reading of the monotonic clock, which a launch reads
// anyway. The distance of both clocks is measured again every 100 ms, so that an event follows a
// change of the host's time that much later at most. Callers: traces and profiles. Thread-safe: all
// functions. Cannot fail.
#ifndef RUNTIME_OBSERVE_TRACE_CLOCK_H
#define RUNTIME_OBSERVE_TRACE_CLOCK_H

#include <atomic>
#include <chrono>
#include <cstdint>

namespace neuron::runtime {

class TraceClock {
 public:
  // Of the monotonic clock.
  static uint64_t monotonic_ns() {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  // Since the epoch, at a moment of the monotonic clock that has just passed.
  static uint64_t host_ns(uint64_t monotonic) {
    if (monotonic >= renewal_.load(std::memory_order_relaxed)) renew();
    return monotonic + distance_.load(std::memory_order_relaxed);
  }
  static uint64_t now_ns() { return host_ns(monotonic_ns()); }

 private:
  static constexpr uint64_t kKept_ns = 100'000'000;
  static void renew();

  // Relaxed: a reader that sees the old distance with the new renewal is as far off as one before.
  static std::atomic<uint64_t> renewal_;   // monotonic
  static std::atomic<uint64_t> distance_;  // wraps around
};

}  // namespace neuron::runtime

#endif
