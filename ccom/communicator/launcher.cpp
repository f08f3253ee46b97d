// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/launcher.h"

#include <utility>

#include "driver/base/backoff.h"
#include "driver/base/service_thread.h"

namespace neuron::ccom {
namespace {

// The thread must not take a processor from the ranks that it waits for.
constexpr base::Backoff::Steps kLooks{.pauses = 64, .yields = 512};

}  // namespace

Launcher::Launcher(std::function<void()> advance,
                   std::function<void(const char* what, bool memory_ran_out)> failed)
    : advance_(std::move(advance)), failed_(std::move(failed)) {
  thread_ = base::service_thread(
      "ccom-launcher", [this] { serve(); }, [this](const char* what) { failed_(what, false); });
}

Launcher::~Launcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Launcher::launched() {
  {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  wake_.notify_one();
}

void Launcher::ended(const ccom_completion_t& completion, ccom_status_t status,
                     std::string sentence) {
  {
    const std::lock_guard lock(mutex_);
    ended_.push_back({completion, status, std::move(sentence)});
    --under_way_;
  }
  wake_.notify_one();
}

void Launcher::serve() {
  base::Backoff backoff(kLooks);
  std::unique_lock lock(mutex_);
  // bounded: the destructor ends it, and every operation has a timeout.
  for (;;) {
    if (!ended_.empty()) {
      const Ended next = std::move(ended_.front());
      ended_.pop_front();
      lock.unlock();
      base::guarded(
          [&] {
            next.completion.done(next.completion.context, next.status, next.sentence.c_str());
          },
          failed_);
      backoff.reset();
      lock.lock();
      continue;
    }
    if (stopping_) {
      return;
    }
    if (under_way_ == 0) {
      // bounded: a launch or the destructor wakes it.
      wake_.wait(lock, [this] { return stopping_ || under_way_ != 0 || !ended_.empty(); });
      backoff.reset();
      continue;
    }
    lock.unlock();
    // If they are held, the caller advances them.
    if (const std::unique_lock held(streams_, std::try_to_lock); held) {
      base::guarded(advance_, failed_);
    }
    backoff.wait();
    lock.lock();
  }
}

}  // namespace neuron::ccom
