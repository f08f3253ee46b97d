// SPDX-License-Identifier: Apache-2.0
// Functions that make the schedules other than rings. Each takes a valid request that its algorithm
// supports.
//
// Callers: the planner. Thread-safe: functions of their arguments. Cannot fail.
#ifndef CCOM_PLAN_ALGORITHMS_H
#define CCOM_PLAN_ALGORITHMS_H

#include <memory>

#include "ccom/plan/places.h"
#include "ccom/request/layout.h"
#include "ccom/request/request.h"
#include "ccom/schedule/recipe.h"

namespace neuron::ccom {

// Direct exchanges are done in batches of this many peers, whose sends and receives fit into the
// lookahead of executors with credits.
inline constexpr uint32_t kPeersAtOnce = 15;
// All-reduce of at most this many bytes doubles whole vectors, which takes half the rounds.
inline constexpr uint64_t kDoublingBytes = 8192;
// A part of a recipe has at most this many copies of blocks, so that a program of many ranks stays
// small.
inline constexpr uint64_t kCopiesAtOnce = 1024;

// The base of the recipes of plan/: the request, and the places of its blocks.
class PlannedRecipe : public Recipe {
 public:
  PlannedRecipe(const Request& request, uint32_t ranks)
      : request_(request), layout_(request_, ranks), ranks_(ranks) {
    type = request.type;
    reduction = request.reduction;
  }

  uint32_t ranks() const override { return ranks_; }
  uint32_t channels() const override { return 1; }
  uint64_t input_bytes(Rank rank) const override { return layout_.input_bytes(rank); }
  uint64_t output_bytes(Rank rank) const override { return layout_.output_bytes(rank); }
  uint32_t period() const final { return period_; }

 protected:
  Rank plus(Rank rank, uint64_t distance) const {
    return static_cast<Rank>((rank + distance) % ranks_);
  }
  Rank minus(Rank rank, uint64_t distance) const {
    return static_cast<Rank>((rank + ranks_ - distance % ranks_) % ranks_);
  }

  const Request request_;
  const Layout layout_;
  const uint32_t ranks_;
  uint32_t period_ = 0;
};

// Every rank exchanges with every other. `one_step`: all-reduce, broadcast and reduce without a
// second step. `pairwise`: one peer at a time.
std::shared_ptr<const Schedule> make_mesh(const Request& request, uint32_t ranks, bool one_step,
                                          bool pairwise = false);
// `whole_vector`: all-reduce by recursive doubling alone, for few bytes.
std::shared_ptr<const Schedule> make_recursive(const Request& request, uint32_t ranks,
                                               bool whole_vector);
std::shared_ptr<const Schedule> make_bruck(const Request& request, uint32_t ranks);
// All-to-all for nodes with equal numbers of ranks.
std::shared_ptr<const Schedule> make_two_level(const Request& request, const Places& places);
// Rings of chips with two ranks each.
std::shared_ptr<const Schedule> make_kangaring(const Request& request, const Group& group,
                                               const Places& places, uint32_t channels);

// Trees, for everything but all-to-all and pairs. With several segments: two binary trees in a
// pipeline if the operation allows it. Otherwise one binomial tree.
std::shared_ptr<const Schedule> make_tree(const Request& request, uint32_t ranks,
                                          uint64_t segments);
// The ring for rooted operations: a chain that begins at the root.
std::shared_ptr<const Schedule> make_chain(const Request& request, uint32_t ranks,
                                           uint64_t segments);
// All-reduce, all-gather and reduce-scatter for nodes with equal numbers of ranks, in a pipeline.
std::shared_ptr<const Schedule> make_hierarchical(const Request& request, const Places& places,
                                                  uint64_t segments);
// All-reduce of few bytes: a leader for each node, any number of ranks in a node.
std::shared_ptr<const Schedule> make_node_leaders(const Request& request, const Places& places);
// All-reduce for nodes of which each has the next ranks, and all have as many.
std::shared_ptr<const Schedule> make_node_chain(const Request& request, const Places& places);
// A leader for each node, any number of ranks in a node.
std::shared_ptr<const Schedule> make_node_tree(const Request& request, const Places& places,
                                               uint64_t segments);

}  // namespace neuron::ccom

#endif
