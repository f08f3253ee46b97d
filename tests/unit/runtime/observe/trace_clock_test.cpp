// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/trace_clock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace neuron::runtime {
namespace {

uint64_t host_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

// Only the host's clock is asked before and after, so a pause of the thread cannot fail this.
TEST(TraceClock, ShowsTheHostsTimeWithin100Microseconds) {
  constexpr uint64_t kNear_ns = 100'000;
  for (int n = 0; n < 100; ++n) {
    const uint64_t before = host_ns();
    const uint64_t now = TraceClock::now_ns();
    EXPECT_GE(now + kNear_ns, before);
    EXPECT_LE(now, host_ns() + kNear_ns);
    if (n % 25 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(110));
  }
}

TEST(TraceClock, KeepsTheDistanceOfTwoReadingsOfTheMonotonicClock) {
  const uint64_t first = TraceClock::monotonic_ns();
  const uint64_t a = TraceClock::host_ns(first);
  EXPECT_NEAR(static_cast<double>(TraceClock::host_ns(first + 5'000) - a), 5'000, 1'000);
}

TEST(TraceClock, ServesThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      uint64_t last = 0;
      for (int n = 0; n < 10'000; ++n) {
        const uint64_t now = TraceClock::now_ns();
        EXPECT_GE(now + 100'000, last);
        last = now;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace neuron::runtime
