// SPDX-License-Identifier: Apache-2.0
// How a rank waits for others of its host: it spins, then yields the processor, then sleeps.
//
// Concepts: with more ranks than processors, it yields soon, since the other rank may need this
// processor. It sleeps at most a millisecond, and, if more than 64 ranks share too few processors,
// one more for each 64 of them, 20 at most; on a futex in the arena of that rank, which wakes
// sleepers when it writes a word. Threads: one per object. Cannot fail.
#ifndef CCOM_PROGRESS_HOST_WAIT_H
#define CCOM_PROGRESS_HOST_WAIT_H

#include <cstdint>

#include "ccom/progress/host_task.h"
#include "driver/base/backoff.h"
#include "driver/base/deadline.h"

namespace neuron::ccom {

class HostWait {
 public:
  explicit HostWait(bool crowded) : crowded_(crowded) {}

  void reset() { turns_ = 0; }
  // Called after each check without success. True: it is time to check clocks and other ranks'
  // calls.
  bool turn(HostTask& task) {
    ++turns_;
    if (turns_ <= (crowded_ ? kSpinsCrowded : kSpins)) {
      if (turns_ > kEager) base::pause_processor();
      return false;
    }
    return long_turn(task);
  }
  base::Moment since() const { return since_; }  // of the first long wait

 private:
  static constexpr uint32_t kEager = 4;
  static constexpr uint32_t kSpinsCrowded = 6;
  static constexpr uint32_t kSpins = 20000;

  bool long_turn(HostTask& task);

  const bool crowded_;
  uint32_t turns_ = 0;
  base::Moment since_{};
};

}  // namespace neuron::ccom

#endif
