// SPDX-License-Identifier: Apache-2.0
//
// The group of ranks that a collective joins. Callers: CollectivePrograms. Thread-safe: pure.
// Cannot fail.
#ifndef RUNTIME_COLLECTIVES_REPLICA_GROUP_H
#define RUNTIME_COLLECTIVES_REPLICA_GROUP_H

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "runtime/neff/model.h"

namespace neuron::runtime {

struct ReplicaGroup {
  uint32_t number = 0;          // among the groups of the model; 0 if it names none
  std::vector<uint32_t> ranks;  // empty if the rank takes no part
};

// The group of `rank` in a job of `size` ranks.
inline ReplicaGroup group_of(const neff::Collective& collective, uint32_t rank, uint32_t size) {
  ReplicaGroup group;
  if (collective.groups.empty()) {
    group.ranks.resize(size);
    std::iota(group.ranks.begin(), group.ranks.end(), 0u);
    return group;
  }
  for (const auto& ranks : collective.groups) {
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) {
      group.ranks = ranks;
      return group;
    }
    ++group.number;
  }
  return group;
}

}  // namespace neuron::runtime

#endif
