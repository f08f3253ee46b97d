// SPDX-License-Identifier: Apache-2.0
// Transfers that are in flight, for an owner of memory who must not take it away under them.
//
// Concepts: a transfer counts itself while it uses pointers. await() returns when every transfer
// has ended that had begun when it was called; it does not wait for later ones, so that a stream of
// short transfers does not hold it up. There are two sets of counters, and transfers use one of
// them; await() turns to the other set and waits until the first is empty, and does so twice,
// because a transfer may have chosen its set before the turn and count itself after. Each set has a
// counter for a few threads, so that they do not share cache lines. Callers: any thread; await()
// not within a transfer of its own thread. Cannot fail.
#ifndef DRIVER_EMULATOR_SERVICE_TRANSFERS_H
#define DRIVER_EMULATOR_SERVICE_TRANSFERS_H

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace neuron::service {

class Transfers {
 public:
  uint32_t begin() {
    const uint32_t place = (set_.load(std::memory_order_relaxed) & 1) * kThreads + own_place();
    // Sequentially consistent, as what the owner of memory does: it takes the mapping away, then
    // looks at the counters. Either it sees this transfer, or the transfer finds no mapping.
    counters_[place].value.fetch_add(1);
    return place;
  }
  void end(uint32_t begun) {
    // Release: pairs with the load in await(); what the transfer did happens before its return.
    counters_[begun].value.fetch_sub(1, std::memory_order_release);
  }
  void await();

 private:
  static constexpr uint32_t kThreads = 8;
  static uint32_t own_place();
  struct alignas(64) Counter {
    std::atomic<uint32_t> value = 0;
  };

  std::atomic<uint32_t> set_ = 0;
  std::mutex mutex_;  // one await() at a time
  std::array<Counter, 2 * kThreads> counters_;
};

}  // namespace neuron::service

#endif
