// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccom/plan/algorithms.h"

namespace neuron::ccom {
namespace {

// For two nodes or more, and few bytes, which are sent to another node once a round and not once
// for each rank of the node: the ranks of a node hand what they have to one of them, these leaders
// double, and hand the result out. Leaders double among a power of two of nodes; each other node
// first hands its part to a neighbour, and gets the result from it last.
class NodeLeaders : public PlannedRecipe {
 public:
  bool emit(Rank rank, uint32_t, uint64_t index, Script& script) const final {
    if (request_.count == 0) return false;
    const uint32_t x = places_.node_of[rank];
    if (rank == leader(x)) return lead(rank, x, index, script);
    if (index != 0) return false;
    script.send(leader(x), layout_.input(rank, 0), layout_.input_bytes(rank));
    script.receive(leader(x), layout_.output(rank, 0), layout_.output_bytes(rank));
    return true;
  }

 protected:
  NodeLeaders(const Request& request, const Places& places)
      : PlannedRecipe(request, places.ranks()),
        places_(places),
        nodes_(static_cast<uint32_t>(places.nodes.size())) {
    while (core_ * 2 <= nodes_) core_ *= 2, ++levels_;
    extra_ = nodes_ - core_;
  }

  // The steps of the leader of node `x`, as emit() has them.
  virtual bool lead(Rank rank, uint32_t x, uint64_t index, Script& script) const = 0;

  // Nodes next to each other have leaders at different places, since hosts that are not real may
  // share processors.
  Rank leader(uint32_t node) const {
    const auto& members = places_.nodes[node];
    return members[node % members.size()];
  }
  bool folded(uint32_t node) const { return node < 2 * extra_ && node % 2 == 1; }
  bool has_folded(uint32_t node) const { return node < 2 * extra_ && node % 2 == 0; }
  // Of a node that doubles, its number among these, and back.
  uint32_t id_of(uint32_t node) const { return node < 2 * extra_ ? node / 2 : node - extra_; }
  uint32_t node_of(uint32_t id) const { return id < extra_ ? 2 * id : id + extra_; }

  const Places places_;
  const uint32_t nodes_;
  uint32_t core_ = 1, levels_ = 0, extra_ = 0;
};

class LeadersAllReduce final : public NodeLeaders {
 public:
  LeadersAllReduce(const Request& request, const Places& places)
      : NodeLeaders(request, places), bytes_(layout_.vector_bytes()) {}

  uint64_t scratch_bytes(Rank rank) const override {
    const uint64_t members = places_.nodes[places_.node_of[rank]].size();
    return rank == leader(places_.node_of[rank]) ? std::max<uint64_t>(members, 2) * bytes_ : 0;
  }

  // The node's sum, a neighbour's, one for each level, and the result for all.
  bool lead(Rank rank, uint32_t x, uint64_t index, Script& script) const override {
    const uint32_t id = id_of(x);
    if (index == 0) {
      gather(rank, x, script);
    } else if (index == 1) {
      if (folded(x)) {
        script.send(leader(x - 1), layout_.output(rank, 0), bytes_);
        script.receive(leader(x - 1), layout_.output(rank, 0), bytes_);
      } else if (has_folded(x)) {
        add_from(rank, leader(x + 1), true, false, script);
      }
    } else if (index < 2 + levels_) {
      if (folded(x)) return true;
      const uint32_t level = static_cast<uint32_t>(index) - 2, other = id ^ (1u << level);
      const Rank peer = leader(node_of(other));
      script.send(peer, layout_.output(rank, 0), bytes_);
      add_from(rank, peer, id < other, level + 1 == levels_, script);
    } else if (index == 2 + levels_) {
      if (has_folded(x)) script.send(leader(x + 1), layout_.output(rank, 0), bytes_);
      for (const Rank member : places_.nodes[x]) {
        if (member != rank) script.send(member, layout_.output(rank, 0), bytes_);
      }
    } else {
      return false;
    }
    return true;
  }

 private:
  void gather(Rank rank, uint32_t x, Script& script) const {
    const auto& members = places_.nodes[x];
    uint32_t others = 0;
    Script::Reduction sum;
    for (const Rank member : members) {
      if (member == rank) {
        sum.own_index = others;
        continue;
      }
      script.receive(member, Slice{Buffer::kScratch, others++ * bytes_}, bytes_);
    }
    if (others == 0) {
      script.copy(layout_.input(rank, 0), layout_.output(rank, 0), bytes_);
      return;
    }
    sum.source = {Buffer::kScratch, 0};
    sum.count = others;
    sum.stride = bytes_;
    sum.has_own = true;
    sum.own = layout_.input(rank, 0);
    sum.destination = layout_.output(rank, 0);
    sum.bytes = bytes_;
    script.reduce(sum);
  }

  void add_from(Rank rank, Rank peer, bool own_first, bool complete, Script& script) const {
    const Slice arrived{Buffer::kScratch, 0};
    script.receive(peer, arrived, bytes_);
    Script::Reduction sum;
    sum.source = arrived;
    sum.count = 1;
    sum.stride = bytes_;
    sum.has_own = true;
    sum.own = layout_.output(rank, 0);
    sum.own_index = own_first ? 0 : 1;
    sum.destination = layout_.output(rank, 0);
    sum.bytes = bytes_;
    sum.complete = complete;
    script.reduce(sum);
  }

  const uint64_t bytes_;
};

// The first node has rank 0, whichever number the host has.
Places by_first_rank(Places places) {
  std::sort(places.nodes.begin(), places.nodes.end());
  for (uint32_t node = 0; node < places.nodes.size(); ++node) {
    for (const Rank rank : places.nodes[node]) places.node_of[rank] = node;
  }
  return places;
}

// For nodes whose ranks follow each other, so that the blocks of a node lie together.
class LeadersAllGather final : public NodeLeaders {
 public:
  LeadersAllGather(const Request& request, const Places& places)
      : NodeLeaders(request, by_first_rank(places)), bytes_(layout_.bytes(0)) {}

  uint64_t scratch_bytes(Rank) const override { return 0; }

  // The blocks of the node, those of a neighbour, each level's, and the result for all.
  bool lead(Rank rank, uint32_t x, uint64_t index, Script& script) const override {
    if (index == 0) {
      script.copy(layout_.input(rank, 0), layout_.output(rank, layout_.offset(rank)), bytes_);
      for (const Rank member : places_.nodes[x]) {
        if (member == rank) continue;
        script.receive(member, layout_.output(rank, layout_.offset(member)), bytes_);
      }
    } else if (index == 1) {
      if (folded(x)) {
        send(rank, leader(x - 1), x, x + 1, script);
        receive(rank, leader(x - 1), 0, nodes_, script);
      } else if (has_folded(x)) {
        receive(rank, leader(x + 1), x + 1, x + 2, script);
      }
    } else if (index < 2 + levels_) {
      if (folded(x)) return true;
      const uint32_t bit = 1u << (index - 2), id = id_of(x), other = id ^ bit;
      const uint32_t mine = id & ~(bit - 1), theirs = other & ~(bit - 1);
      const Rank peer = leader(node_of(other));
      send(rank, peer, node_of(mine), node_of(mine + bit), script);
      receive(rank, peer, node_of(theirs), node_of(theirs + bit), script);
    } else if (index == 2 + levels_) {
      if (has_folded(x)) send(rank, leader(x + 1), 0, nodes_, script);
      for (const Rank member : places_.nodes[x]) {
        if (member != rank) send(rank, member, 0, nodes_, script);
      }
    } else {
      return false;
    }
    return true;
  }

 private:
  // The blocks of nodes from `begin` to before `end`.
  uint64_t start(uint32_t node) const { return node * places_.nodes[0].size() * bytes_; }
  void send(Rank rank, Rank peer, uint32_t begin, uint32_t end, Script& script) const {
    script.send(peer, layout_.output(rank, start(begin)), start(end) - start(begin));
  }
  void receive(Rank rank, Rank peer, uint32_t begin, uint32_t end, Script& script) const {
    script.receive(peer, layout_.output(rank, start(begin)), start(end) - start(begin));
  }

  const uint64_t bytes_;
};

}  // namespace

std::shared_ptr<const Schedule> make_node_leaders(const Request& request, const Places& places) {
  if (request.operation == CCOM_ALL_GATHER) {
    return std::make_shared<LeadersAllGather>(request, places);
  }
  return std::make_shared<LeadersAllReduce>(request, places);
}

}  // namespace neuron::ccom
