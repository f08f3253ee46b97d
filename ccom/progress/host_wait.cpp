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
// A sleeper looks up after a millisecond: for the interruption of its job, for deadlines, and for
// ranks other than the one that it sleeps for. Hundreds of ranks that did so would take all of a
// few processors for that alone.
constexpr long kMillisecond = 1'000'000, kLongest = 20 * kMillisecond;

long longest_sleep(const HostLane& lane, bool crowded) {
  if (!crowded || !lane.many()) return kMillisecond;
  const auto more = static_cast<long>(std::min<size_t>(lane.streams.size() / HostLane::kMany, 100));
  return std::min((1 + more) * kMillisecond, kLongest);
}

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
  // Pairs with the fence of HostLane::wake().
  sleep.sleepers.exchange(1, std::memory_order_seq_cst);
  if (task.waiting_for() == rank && rank != task.lane().context->rank) {
    const timespec longest{0, longest_sleep(task.lane(), crowded_)};
    syscall(SYS_futex, &sleep.wakes, FUTEX_WAIT, wakes, &longest, nullptr, 0);
  }
  turns_ = first + 30;  // the next turn checks again
  return true;
}

}  // namespace neuron::ccom
