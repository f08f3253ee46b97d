// SPDX-License-Identifier: Apache-2.0
// Wall-clock time in a few nanoseconds, for records of operations.
//
// Concepts: with an invariant time stamp counter, its ticks are converted from an anchor that is
// renewed about every second. Otherwise, and until the rate is known, the time is that of the
// system's clock. Thread-safe: no; one recorder owns one. Cannot fail.
#ifndef CCOM_FLIGHT_FLIGHT_CLOCK_H
#define CCOM_FLIGHT_FLIGHT_CLOCK_H

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace neuron::ccom {

class FlightClock {
 public:
  FlightClock();

  uint64_t now() {
#if defined(__x86_64__)
    const uint64_t passed = __rdtsc() - anchor_ticks_;
    if (__builtin_expect(passed < valid_ticks_, 1)) {
      return anchor_ns_ +
             static_cast<uint64_t>((static_cast<unsigned __int128>(passed) * rate_) >> 32);
    }
#endif
    return renew();
  }

 private:
  uint64_t renew();

  bool invariant_ = false;
  uint64_t first_ticks_ = 0, first_ns_ = 0;    // where the rate is measured from
  uint64_t anchor_ticks_ = 0, anchor_ns_ = 0;  // where a time is computed from
  uint64_t rate_ = 0;                          // nanoseconds of a tick, times 2^32
  uint64_t valid_ticks_ = 0;                   // of the anchor; 0: use the system's clock
};

}  // namespace neuron::ccom

#endif
