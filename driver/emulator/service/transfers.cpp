// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/transfers.h"

#include "driver/base/backoff.h"

namespace neuron::service {
namespace {

// A transfer takes up to a millisecond: soon after its beginning the wait leaves the processor to
// it.
constexpr base::Backoff::Steps kLooks = {64, 64, std::chrono::microseconds(20),
                                         std::chrono::microseconds(200)};

}  // namespace

uint32_t Transfers::own_place() {
  static std::atomic<uint32_t> threads = 0;
  static thread_local const uint32_t place =
      threads.fetch_add(1, std::memory_order_relaxed) % kThreads;
  return place;
}

void Transfers::await() {
  const std::lock_guard lock(mutex_);
  for (unsigned turn = 0; turn < 2; ++turn) {
    const uint32_t before = set_.load(std::memory_order_relaxed) & 1;
    set_.store(before ^ 1);
    for (uint32_t i = before * kThreads; i < (before + 1) * kThreads; ++i) {
      base::Backoff backoff(kLooks);
      // Bounded: by the length of a transfer.
      while (counters_[i].value.load() != 0) backoff.wait();
    }
  }
}

}  // namespace neuron::service
