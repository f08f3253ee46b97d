// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/group_workers.h"

#include <bit>
#include <exception>

namespace neuron::chip {
namespace {

// How long a group runs before another gets its turn and a stop is noticed.
constexpr std::chrono::milliseconds kSlice{20};
// An idle worker checks again after this time even if it was not woken.
constexpr std::chrono::seconds kIdle{10};

}  // namespace

GroupWorkers::~GroupWorkers() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void GroupWorkers::wake(unsigned core) {
  const std::lock_guard guard(lock_);
  if (stopping_) return;
  waiting_ |= uint64_t{1} << core;
  if (idle_ == 0 && threads_.size() < limit_) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::exception&) {  // std::system_error or std::bad_alloc
      // The group stays runnable; run_group executes it.
    }
  }
  changed_.notify_one();
}

unsigned GroupWorkers::threads() const {
  const std::lock_guard guard(lock_);
  return static_cast<unsigned>(threads_.size());
}

void GroupWorkers::work() {
  std::unique_lock guard(lock_);
  while (!stopping_) {
    const uint64_t ready = waiting_ & ~running_;
    if (ready == 0) {
      ++idle_;
      changed_.wait_for(guard, kIdle);
      --idle_;
      continue;
    }
    const auto core = static_cast<unsigned>(std::countr_zero(ready));
    const uint64_t bit = uint64_t{1} << core;
    waiting_ &= ~bit;
    running_ |= bit;
    guard.unlock();
    const RunResult result = run_(core, std::chrono::steady_clock::now() + kSlice);
    guard.lock();
    running_ &= ~bit;
    // kBusy: another thread runs the group inline, until the group is quiescent or that thread's
    // deadline passes. The group may then still be runnable.
    if (result != RunResult::kQuiescent) waiting_ |= bit;
    if ((waiting_ & bit) != 0) changed_.notify_one();
  }
}

}  // namespace neuron::chip
