// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/side_thread.h"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace neuron::telemetry {

struct SideThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> job;  // empty: nothing to do
  bool busy = false;
  bool over = false;
};

SideThread::~SideThread() {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  state_->over = true;
  state_->changed.notify_all();
}

bool SideThread::begin(std::function<void()> job) {
  if (state_ == nullptr) {
    auto state = std::make_shared<State>();
    try {
      std::thread([state] {
        std::unique_lock lock(state->mutex);
        while (!state->over) {
          if (!state->job) {
            // bounded: by its owner, who wakes it at the end
            state->changed.wait(lock, [&] { return state->over || state->job; });
            continue;
          }
          const std::function<void()> mine = std::exchange(state->job, nullptr);
          lock.unlock();
          mine();
          lock.lock();
          state->busy = false;
          state->changed.notify_all();
        }
      }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    state_ = std::move(state);
  }
  const std::lock_guard lock(state_->mutex);
  if (state_->busy) return false;
  state_->busy = true;
  state_->job = std::move(job);
  state_->changed.notify_all();
  return true;
}

bool SideThread::ended_by(Deadline deadline) {
  if (state_ == nullptr) return false;
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_until(lock, deadline, [&] { return !state_->busy; });
}

}  // namespace neuron::telemetry
