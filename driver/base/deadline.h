// SPDX-License-Identifier: Apache-2.0
//
// Deadline: the moment at which a wait gives up. Every blocking function takes one by value.
// Thread-safe: a value. A deadline is absolute on the monotonic clock, so spurious wakeups do not
// lengthen a wait. A Moment is a time that was measured.
#ifndef DRIVER_BASE_DEADLINE_H
#define DRIVER_BASE_DEADLINE_H

#include <time.h>

#include <chrono>
#include <compare>
#include <cstdint>

namespace neuron::base {

using Clock = std::chrono::steady_clock;
using Moment = Clock::time_point;
// Nanoseconds of CLOCK_MONOTONIC, which is what steady_clock is on Linux.
inline uint64_t monotonic_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

class Deadline {
 public:
  using Clock = base::Clock;

  explicit Deadline(Moment when) : when_(when) {}
  static Deadline never() { return Deadline(Moment::max()); }

  // A span that the clock cannot express gives its last moment instead of an overflow.
  static Deadline after(std::chrono::nanoseconds span) {
    return Deadline(Clock::now()).later_by(span);
  }
  Deadline later_by(std::chrono::nanoseconds span) const {
    return span > Moment::max() - when_ ? never() : Deadline(when_ + span);
  }

  // The earlier deadline is the lesser one.
  auto operator<=>(const Deadline&) const = default;

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

  Moment when() const { return when_; }

 private:
  Moment when_;
};

}  // namespace neuron::base

#endif
