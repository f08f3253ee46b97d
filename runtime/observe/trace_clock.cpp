// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/trace_clock.h"

namespace neuron::runtime {

std::atomic<uint64_t> TraceClock::renewal_{0};
std::atomic<uint64_t> TraceClock::distance_{0};

void TraceClock::renew() {
  // Between two readings of the other clock, so that a thread that had to pause is noticed.
  uint64_t least = UINT64_MAX, distance = 0, now = 0;
  for (int n = 0; n < 3; ++n) {
    const uint64_t before = monotonic_ns();
    const auto host = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    now = monotonic_ns();
    if (now - before >= least) continue;
    least = now - before;
    distance = static_cast<uint64_t>(host.count()) - (before + least / 2);
  }
  distance_.store(distance, std::memory_order_relaxed);
  renewal_.store(now + kKept_ns, std::memory_order_relaxed);
}

}  // namespace neuron::runtime
