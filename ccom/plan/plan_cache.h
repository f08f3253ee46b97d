// SPDX-License-Identifier: Apache-2.0
// The plans of a communicator by their requests. A full cache drops the least recently used plan.
//
// Callers: the communicator's thread. Thread-safe: no. Owns: plans, together with the operations
// that still run them. Fails like the planner; failures are not cached.
#ifndef CCOM_PLAN_PLAN_CACHE_H
#define CCOM_PLAN_PLAN_CACHE_H

#include <list>
#include <memory>
#include <unordered_map>

#include "ccom/plan/planner.h"

namespace neuron::ccom {

class PlanCache {
 public:
  PlanCache(const Planner& planner, size_t capacity) : planner_(planner), capacity_(capacity) {}

  Result<std::shared_ptr<const Plan>> find(const Request& request);
  size_t size() const { return plans_.size(); }

 private:
  using Plans = std::list<std::shared_ptr<const Plan>>;

  const Planner& planner_;
  size_t capacity_;
  Plans plans_;  // newest first
  std::unordered_multimap<uint64_t, Plans::iterator> by_hash_;
};

}  // namespace neuron::ccom

#endif
