// SPDX-License-Identifier: Apache-2.0
// The ranks of a group by node and chip, and the ring orders that follow the links between them.
//
// Callers: planner and algorithms. Thread-safe: const after construction. Cannot fail.
#ifndef CCOM_PLAN_PLACES_H
#define CCOM_PLAN_PLACES_H

#include <cstdint>
#include <vector>

#include "ccom/plan/planner.h"

namespace neuron::ccom {

struct Places {
  explicit Places(const Group& group);

  std::vector<std::vector<Rank>> nodes;  // ranks of each node that has any, by chip, core, rank
  std::vector<uint32_t> node_of;         // index into `nodes`, by rank
  bool even = true;                      // all nodes have the same number of ranks
  bool node_major = true;    // rank = index of its node * ranks of a node + local number
  bool in_order = true;      // as many ranks on each node, and those of a node follow each other
  bool whole_pairs = false;  // at least four ranks, and an even number on every chip

  uint32_t ranks() const { return static_cast<uint32_t>(node_of.size()); }
};

// Order of all ranks for each of `channels` rings: node after node, and within a node along the
// profile's Hamiltonian cycles. Each cycle is used in both directions, and channels enter it where
// they use different NICs. Without cycles: by rank, odd channels backwards. `both`: false keeps to
// one direction.
std::vector<std::vector<Rank>> ring_orders(const Group& group, const Places& places,
                                           uint32_t channels, bool both);
// Directed cycles of the group's nodes; 1 where there are no links to follow.
uint32_t directed_cycles(const Group& group);

}  // namespace neuron::ccom

#endif
