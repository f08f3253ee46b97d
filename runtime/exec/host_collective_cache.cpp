// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/host_collective_cache.h"

#include <algorithm>

namespace neuron::runtime {

HostCollectiveCache& HostCollectiveCache::of(Session& session) {
  return session.host_collectives.of<HostCollectiveCache>();
}

std::shared_ptr<HostCollective> HostCollectiveCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  found->second.used = ++clock_;
  return found->second.collective;
}

void HostCollectiveCache::keep(const Key& key, std::shared_ptr<HostCollective> collective) {
  std::shared_ptr<HostCollective> gone;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kMost && !entries_.contains(key)) {
    const auto oldest = std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    gone = std::move(oldest->second.collective);
    entries_.erase(oldest);
  }
  Entry& entry = entries_[key];
  std::swap(entry.collective, collective);
  entry.used = ++clock_;
}

}  // namespace neuron::runtime
