// SPDX-License-Identifier: Apache-2.0
// What a thread does between two checks for a change by another thread or a device: it first spins,
// then yields the processor, then sleeps, each time longer.
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
  // A number of yields that no wait reaches: the waiter never sleeps.
  static constexpr uint32_t kNoSleep = UINT32_MAX / 2;

  // `pauses` checks are followed by a pause and `yields` by a yield. Then sleeps double from the
  // first length to the longest.
  struct Steps {
    uint32_t pauses = 256;
    uint32_t yields = 4096;
    std::chrono::nanoseconds first_sleep{50'000};
    std::chrono::nanoseconds longest_sleep{50'000};
  };

  explicit Backoff(Steps steps) : steps_(steps), sleep_(steps.first_sleep) {}

  // The caller found a change: the next wait spins again.
  void reset() {
    looks_ = 0;
    sleep_ = steps_.first_sleep;
  }

  // The caller calls this after each check that found no change. No sleep is longer than `limit`.
  void wait(std::chrono::nanoseconds limit = std::chrono::hours(1)) {
    if (looks_ < steps_.pauses) {
      ++looks_;
      pause_processor();
    } else {
      wait_longer(limit);
    }
  }

  // Whether the next wait is a sleep. Before a sleep, callers check a clock or whether a peer
  // lives.
  bool sleeps() const { return looks_ >= steps_.pauses + steps_.yields; }

 private:
  void wait_longer(std::chrono::nanoseconds limit);

  Steps steps_;
  uint32_t looks_ = 0;
  std::chrono::nanoseconds sleep_;
};

}  // namespace neuron::base

#endif
