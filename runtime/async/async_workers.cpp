// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_workers.h"

#include <pthread.h>

#include <chrono>
#include <system_error>

#include "driver/base/backoff.h"
#include "driver/base/guarded.h"
#include "driver/base/service_thread.h"
#include "runtime/async/async_unit.h"
#include "runtime/base/log.h"

namespace neuron::runtime {
namespace {

// Pauses of an idle worker before it sleeps; about 10 us.
constexpr uint32_t kLooks = 200;
constexpr auto kSleep = std::chrono::minutes(1);

}  // namespace

Result<void> AsyncWorkers::start() {
  std::lock_guard lock(mutex_);
  if (add_thread()) return {};
  return fail(NRT_RESOURCE,
              "the host gives no thread for asynchronous requests; raise its limit (ulimit -u)");
}

bool AsyncWorkers::add_thread() noexcept {
  return base::guarded(
      [&] {
        const base::BlockedSignals blocked;
        threads_.reserve(threads_.size() + 1);
        threads_.emplace_back([this] { run(); });
        pthread_setname_np(threads_.back().native_handle(), "nrt-async");
        return true;
      },
      // The threads that exist do all the work.
      [](const char*, bool) { return false; });
}

void AsyncWorkers::ready(AsyncUnit& unit) noexcept {
  std::lock_guard lock(mutex_);
  unit.next_ready = nullptr;
  *last_ = &unit;
  last_ = &unit.next_ready;
  const unsigned waiting = waiting_.load(std::memory_order_relaxed) + 1;
  waiting_.store(waiting, std::memory_order_relaxed);
  if (waiting <= looking_ + woken_) return;
  if (sleeping_ > woken_) {
    ++woken_;
    changed_.notify_one();
  } else if (threads_.size() < limit_ && !stopping_) {
    add_thread();
  }
}

AsyncUnit* AsyncWorkers::take() {
  std::unique_lock lock(mutex_);
  ++looking_;
  base::Backoff backoff({.pauses = kLooks, .yields = 0});
  while (first_ == nullptr && !stopping_ && !backoff.sleeps()) {
    lock.unlock();
    do {
      backoff.wait();
    } while (!backoff.sleeps() && waiting_.load(std::memory_order_relaxed) == 0);
    lock.lock();
  }
  --looking_;
  ++sleeping_;
  while (first_ == nullptr && !stopping_) {
    changed_.wait_for(lock, kSleep);
    // After a spurious wake-up the count may be one too small; that costs one more notification.
    if (woken_ != 0) --woken_;
  }
  --sleeping_;
  AsyncUnit* unit = first_;
  if (unit != nullptr) {
    first_ = unit->next_ready;
    if (first_ == nullptr) last_ = &first_;
    waiting_.store(waiting_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  return unit;
}

void AsyncWorkers::run() {
  while (AsyncUnit* unit = take()) {
    if (work_(*unit)) ready(*unit);
  }
}

void AsyncWorkers::stop() noexcept {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  // No thread is added any more. bounded: by what the threads are doing, which has deadlines.
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace neuron::runtime
