// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_error_tracker.h"

#include "driver/base/guarded.h"
#include "runtime/base/log.h"

namespace neuron::runtime {

void AsyncErrorTracker::add(uint64_t sequence, NRT_STATUS status) noexcept {
  base::guarded(
      [&] {
        std::lock_guard lock(mutex_);
        if (fresh_.size() == kLimit) fresh_.pop_front();
        fresh_.push_back({sequence, static_cast<uint64_t>(status)});
      },
      [&](const char*, bool) {
        log_error(LogComponent::kNrt, "no memory to keep status {} of request {:#x} in its tracker",
                  static_cast<int>(status), sequence);
      });
}

std::span<const AsyncErrorTracker::Entry> AsyncErrorTracker::take() {
  std::lock_guard lock(mutex_);
  // Another thread may be reading what it has taken.
  std::vector<Entry>& taken = taken_[std::this_thread::get_id()];
  taken.assign(fresh_.begin(), fresh_.end());
  fresh_.clear();
  return taken;
}

}  // namespace neuron::runtime
