// SPDX-License-Identifier: Apache-2.0
#include "ccom/flight/flight_clock.h"

#include <algorithm>
#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace neuron::ccom {
namespace {

constexpr uint64_t kMeasure = 20'000'000;  // ns until the rate is known well enough

uint64_t system_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

bool invariant_counter() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

#if defined(__x86_64__)
struct Reading {
  uint64_t ticks = 0, ns = 0;
};

// Reads counter and clock at one moment. If the thread loses its processor in between, all later
// times would be wrong. So it reads several times and keeps the closest pair.
Reading read_both(clockid_t clock) {
  constexpr uint64_t kClose = 20'000;  // ticks: some microseconds
  constexpr int kAttempts = 8;
  Reading best;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < kAttempts && least > kClose; ++i) {
    const uint64_t before = __rdtsc(), ns = system_ns(clock), after = __rdtsc();
    if (after - before >= least) continue;
    least = after - before;
    best = {before + least / 2, ns};
  }
  return best;
}
#endif

}  // namespace

FlightClock::FlightClock() : invariant_(invariant_counter()) {
#if defined(__x86_64__)
  const Reading first = read_both(CLOCK_MONOTONIC_RAW);
  first_ticks_ = first.ticks;
  first_ns_ = first.ns;
#endif
}

uint64_t FlightClock::renew() {
#if defined(__x86_64__)
  const Reading now = read_both(CLOCK_REALTIME), raw = read_both(CLOCK_MONOTONIC_RAW);
  const uint64_t passed_ns = raw.ns - first_ns_;
  const uint64_t passed = raw.ticks - first_ticks_;
  if (invariant_ && passed_ns > kMeasure && passed != 0) {
    rate_ = static_cast<uint64_t>((static_cast<unsigned __int128>(passed_ns) << 32) / passed);
    anchor_ticks_ = now.ticks;
    anchor_ns_ = now.ns;
    valid_ticks_ = static_cast<uint64_t>(
        (static_cast<unsigned __int128>(passed) * std::min<uint64_t>(passed_ns, 1'000'000'000u)) /
        passed_ns);
  }
  return now.ns;
#else
  return system_ns(CLOCK_REALTIME);
#endif
}

}  // namespace neuron::ccom
