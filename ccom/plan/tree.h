// SPDX-License-Identifier: Apache-2.0
// Rooted trees over the ranks of a group: binomial trees, chains, binary trees, and trees that
// follow nodes.
//
// Concepts: `tour` lists the ranks depth first, so the ranks below any rank are contiguous in it.
// Callers: the schedules of tree_schedule.cpp. Thread-safe: const once made. Cannot fail.
#ifndef CCOM_PLAN_TREE_H
#define CCOM_PLAN_TREE_H

#include <cstdint>
#include <vector>

#include "ccom/plan/places.h"

namespace neuron::ccom {

struct Tree {
  static constexpr Rank kNone = ~Rank{0};

  Rank root = 0;
  std::vector<Rank> parent;  // kNone at the root
  std::vector<Rank> tour;
  std::vector<uint32_t> first;  // place in the tour, by rank
  std::vector<uint32_t> last;   // one past those below it

  // Visits the children of a rank in the order of the tour.
  template <class Visit>
  void children(Rank rank, Visit visit) const {
    for (uint32_t i = first[rank] + 1; i < last[rank]; i = last[tour[i]]) visit(tour[i]);
  }
  uint32_t child_count(Rank rank) const {
    uint32_t count = 0;
    children(rank, [&](Rank) { ++count; });
    return count;
  }
};

Tree binomial_tree(uint32_t ranks, Rank root);
Tree chain_tree(uint32_t ranks, Rank root);
// Balanced. `second`: a tree whose inner ranks are, except for one, leaves of the first.
Tree binary_tree(uint32_t ranks, bool second);
// The same below a given root.
Tree rooted_binary_tree(uint32_t ranks, Rank root, bool second);
// A binomial tree of the nodes' leaders; the other ranks of a node are below its leader. The root
// leads its node.
Tree node_tree(const Places& places, Rank root);

}  // namespace neuron::ccom

#endif
