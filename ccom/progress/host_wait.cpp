// SPDX-License-Identifier: Apache-2.0
#include "ccom/progress/host_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace neuron::ccom {
namespace {

// On a shared processor a sleeper resumes sooner than a rank that yields, because its wake-up
// preempts the others.
constexpr auto kYielding = std::chrono::milliseconds(2);
constexpr auto kYieldingCrowded = std::chrono::microseconds(50);
// A sleeper looks up after a millisecond. Hundreds of ranks that did so would take all of a few
// processors for that alone, so they sleep longer, the more they are.
constexpr size_t kRanksOfAMillisecond = 64;

}  // namespace

bool HostWait::long_turn(HostTask& task) {
  const uint32_t first = (crowded_ ? kSpinsCrowded : kSpins) + 1;
  if (turns_ == first) since_ = base::Clock::now();
  // The clock costs little compared with a yield, but need not be read each time.
  const bool look = (turns_ - first) % 32 == 31;
  const base::Clock::duration yielding =
      crowded_ ? base::Clock::duration(kYieldingCrowded) : kYielding;
  if (!look || base::Clock::now() - since_ < yielding) {
    base::yield_processor();
    return look;
  }
  const Rank rank = task.waiting_for();
  HostSleep& sleep = task.lane().streams[rank]->sleep;
  const uint32_t wakes = sleep.wakes.load(std::memory_order_acquire);
  sleep.sleepers.store(1, std::memory_order_seq_cst);
  if (task.waiting_for() == rank && rank != task.lane().context->rank) {
    const auto milliseconds =
        static_cast<long>(1 + task.lane().streams.size() / kRanksOfAMillisecond);
    const timespec longest{0, std::min(milliseconds, 100L) * 1'000'000};
    syscall(SYS_futex, &sleep.wakes, FUTEX_WAIT, wakes, &longest, nullptr, 0);
  }
  turns_ = first + 30;  // the next turn checks again
  return true;
}

}  // namespace neuron::ccom
