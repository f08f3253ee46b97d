// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/call_budget.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace neuron::transport {
namespace {

// How often a call that waits looks whether its client still lives.
constexpr std::chrono::milliseconds kBudgetLook{20};

}  // namespace

void CallBudget::admit() {
  // Of the client's user and of the process.
  const auto taken = [this](const Waiting& call) {
    return std::pair(shares_.taken_by_user(call.client), shares_.taken_by_process(call.client));
  };
  while (!waiting_.empty()) {
    auto next = waiting_.end();
    for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
      if (!shares_.has_share((*at)->client)) continue;
      if (next == waiting_.end() || taken(**at) < taken(**next)) next = at;
    }
    if (next == waiting_.end()) return;
    Waiting& call = **next;
    if (shares_.taken() + call.bytes > room_) return;
    try {
      shares_.take(call.client, call.bytes);
    } catch (const std::bad_alloc&) {
      return;  // the first one that waits tries again
    }
    waiting_.erase(next);
    call.admitted = true;
    call.changed.notify_one();
  }
}

bool CallBudget::take(const service::Client& client, uint64_t bytes,
                      const std::atomic<bool>& gone) {
  Waiting self{client, std::min(bytes, room_), false, {}};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&self);
  admit();
  while (!self.admitted) {  // bounded: by the ends of the calls before it, and by `gone`
    if (gone.load(std::memory_order_relaxed)) {
      waiting_.remove(&self);
      admit();  // it may have been the next
      return false;
    }
    self.changed.wait_for(lock, kBudgetLook, [&] { return self.admitted; });
    if (!self.admitted && waiting_.front() == &self) admit();
  }
  return true;
}

void CallBudget::take_at_once(const service::Client& client, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  shares_.take(client, std::min(bytes, room_));
}

bool CallBudget::has_share(const service::Client& client) {
  const std::lock_guard lock(mutex_);
  return shares_.has_share(client);
}

void CallBudget::give_back(const service::Client& client, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  shares_.give_back(client, std::min(bytes, room_));
  admit();
}

}  // namespace neuron::transport
