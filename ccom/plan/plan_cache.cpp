// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/plan_cache.h"

#include "ccom/request/signature.h"

namespace neuron::ccom {

Result<std::shared_ptr<const Plan>> PlanCache::find(const Request& request) {
  const uint64_t hash = hash_of(request);
  for (auto [at, end] = by_hash_.equal_range(hash); at != end; ++at) {
    if ((*at->second)->request == request) {
      plans_.splice(plans_.begin(), plans_, at->second);
      return plans_.front();
    }
  }
  NEURON_TRY(plan, planner_.plan(request));
  auto made = std::make_shared<Plan>(std::move(plan));
  made->request = request;  // the key, before the planner filled anything in
  if (plans_.size() == capacity_) {
    const auto last = std::prev(plans_.end());
    for (auto [at, end] = by_hash_.equal_range(hash_of((*last)->request)); at != end; ++at) {
      if (at->second == last) {
        by_hash_.erase(at);
        break;
      }
    }
    plans_.pop_back();
  }
  plans_.push_front(std::move(made));
  by_hash_.emplace(hash, plans_.begin());
  return plans_.front();
}

}  // namespace neuron::ccom
