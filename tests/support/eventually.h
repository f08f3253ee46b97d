// SPDX-License-Identifier: Apache-2.0
// Waits for what another thread or process will do, and says whether it came in time.
//
// Callers: any thread. Deadline: `limit`, kPatience if none is given: long enough for a sanitizer
// on a busy machine, so only a test that has failed waits for so long. Owns nothing.
#ifndef TESTS_SUPPORT_EVENTUALLY_H
#define TESTS_SUPPORT_EVENTUALLY_H

#include <chrono>

#include "driver/base/backoff.h"
#include "driver/base/deadline.h"

namespace neuron::test {

using Clock = std::chrono::steady_clock;
inline constexpr std::chrono::seconds kPatience{60};

// True as soon as the condition holds, false when it does not hold at the deadline. Between two
// looks the thread sleeps for `nap`.
template <typename Condition>
bool eventually(Condition condition, std::chrono::nanoseconds limit = kPatience,
                std::chrono::nanoseconds nap = std::chrono::milliseconds(1)) {
  const base::Deadline deadline = base::Deadline::after(limit);
  while (!condition()) {
    if (deadline.expired()) return false;
    base::sleep_for(nap);
  }
  return true;
}

}  // namespace neuron::test

#endif
