// SPDX-License-Identifier: Apache-2.0
// What a thread does between two looks at something that another thread or device will change:
// first it spins, then it yields the processor, then it sleeps, each time longer.
//
// Callers: every loop that polls. The loop has a deadline of its own; a Backoff never ends a wait.
// Thread-safe: no, one object belongs to one waiting thread. Cannot fail.
#ifndef DRIVER_BASE_BACKOFF_H
#define DRIVER_BASE_BACKOFF_H

#include <chrono>
#include <cstdint>

namespace neuron::base {

// One pause instruction: it tells the processor that this thread only polls.
inline void pause_processor() { __builtin_ia32_pause(); }
// Gives the processor to another thread that is ready.
void yield_processor();
// Sleeps; a signal may end the sleep early.
void sleep_for(std::chrono::nanoseconds span);

class Backoff {
 public:
  // So many yields: it never sleeps.
  static constexpr uint32_t kNoSleep = UINT32_MAX / 2;

  // How many looks are followed by a pause, how many by a yield, and how long sleeps are: the first
  // one, and the longest one, to which they double.
  struct Steps {
    uint32_t pauses = 256;
    uint32_t yields = 4096;
    std::chrono::nanoseconds first_sleep{50'000};
    std::chrono::nanoseconds longest_sleep{50'000};
  };

  explicit Backoff(Steps steps) : steps_(steps), sleep_(steps.first_sleep) {}

  // Something has changed: the next wait spins again.
  void reset() {
    looks_ = 0;
    sleep_ = steps_.first_sleep;
  }

  // Called after each look that found no change. No sleep is longer than `limit`.
  void wait(std::chrono::nanoseconds limit = std::chrono::hours(1)) {
    if (looks_ < steps_.pauses) {
      ++looks_;
      pause_processor();
    } else {
      wait_longer(limit);
    }
  }

  // Whether the next wait is a sleep: callers look at a clock, or whether a peer lives, before it.
  bool sleeps() const { return looks_ >= steps_.pauses + steps_.yields; }

 private:
  void wait_longer(std::chrono::nanoseconds limit);

  Steps steps_;
  uint32_t looks_ = 0;
  std::chrono::nanoseconds sleep_;
};

}  // namespace neuron::base

#endif
