// SPDX-License-Identifier: Apache-2.0
#include "driver/base/backoff.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace neuron::base {

void yield_processor() { sched_yield(); }

void sleep_for(std::chrono::nanoseconds span) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(span);
  const timespec time{static_cast<time_t>(seconds.count()),
                      static_cast<long>((span - seconds).count())};
  nanosleep(&time, nullptr);
}

void Backoff::wait_longer(std::chrono::nanoseconds limit) {
  if (!sleeps()) {
    ++looks_;
    yield_processor();
    return;
  }
  sleep_for(std::min(sleep_, limit));
  sleep_ = std::min(sleep_ * 2, steps_.longest_sleep);
}

}  // namespace neuron::base
