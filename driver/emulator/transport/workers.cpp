// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/workers.h"

#include <chrono>
#include <new>
#include <system_error>

namespace neuron::transport {
namespace {

constexpr std::chrono::seconds kIdle{5};

}  // namespace

Workers::Workers(unsigned limit) : limit_(limit) {
  const std::lock_guard lock(mutex_);
  start_thread();
}

Workers::~Workers() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  std::list<std::thread> all;
  all.splice(all.end(), ended_);
  // Threads that end from now on leave themselves where they are.
  all.splice(all.end(), threads_);
  lock.unlock();
  for (std::thread& thread : all) thread.join();
}

void Workers::submit(std::function<void()> job) {
  std::list<std::thread> over;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    over.splice(over.end(), ended_);
    // One that submits while all stop does the job itself.
    if (jobs_.size() > idle_ && threads_.size() < limit_ && !stopping_) {
      try {
        start_thread();
      } catch (const std::system_error&) {
        // Another thread takes the job when it is free: one there always is.
      } catch (const std::bad_alloc&) {
      }
    }
  }
  changed_.notify_one();
  for (std::thread& thread : over) thread.join();
}

void Workers::start_thread() {
  threads_.emplace_back();
  const auto self = std::prev(threads_.end());
  try {
    *self = std::thread([this, self] { work(self); });
  } catch (...) {
    threads_.erase(self);
    throw;
  }
}

void Workers::work(std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {  // bounded: idle threads end, and all do when stopping
    if (jobs_.empty()) {
      if (stopping_) return;
      ++idle_;
      const bool found =
          changed_.wait_for(lock, kIdle, [this] { return !jobs_.empty() || stopping_; });
      --idle_;
      if (found || threads_.size() == 1) continue;
      ended_.splice(ended_.end(), threads_, self);
      return;
    }
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds goes before the lock is taken
    lock.lock();
  }
}

}  // namespace neuron::transport
