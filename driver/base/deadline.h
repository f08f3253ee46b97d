// SPDX-License-Identifier: Apache-2.0
//
// Deadline: the moment at which a wait gives up. Every blocking function takes one by value.
// Thread-safe: a value. A deadline is absolute on the monotonic clock, so a wait that is woken for
// nothing and goes on waiting does not grow longer.
#ifndef DRIVER_BASE_DEADLINE_H
#define DRIVER_BASE_DEADLINE_H

#include <time.h>

#include <chrono>
#include <cstdint>

namespace neuron::base {

// Nanoseconds of CLOCK_MONOTONIC, which is what steady_clock is on Linux.
inline uint64_t monotonic_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Clock::time_point when) : when_(when) {}

  // Spans beyond what the clock can express mean its last moment, not an overflow.
  static Deadline after(std::chrono::nanoseconds span) {
    const Clock::time_point now = Clock::now();
    if (span > Clock::time_point::max() - now) return Deadline(Clock::time_point::max());
    return Deadline(now + span);
  }

  bool expired() const { return Clock::now() >= when_; }

  std::chrono::nanoseconds remaining() const {
    const auto left = when_ - Clock::now();
    return left.count() > 0 ? left : std::chrono::nanoseconds(0);
  }

  // Rounded up, so that a poll with it never spins through the last millisecond.
  int remaining_ms() const {
    const int64_t ms = (remaining().count() + 999'999) / 1'000'000;
    return ms > INT32_MAX ? INT32_MAX : static_cast<int>(ms);
  }

  // On CLOCK_MONOTONIC.
  timespec absolute() const {
    const int64_t ns = when_.time_since_epoch().count();
    return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  }

  Clock::time_point when() const { return when_; }

 private:
  Clock::time_point when_;
};

}  // namespace neuron::base

#endif
