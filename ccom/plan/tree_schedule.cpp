// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccom/plan/algorithms.h"
#include "ccom/plan/tree.h"
#include "ccom/schedule/partition.h"

namespace neuron::ccom {
namespace {

// Data goes up the tree (sums or blocks), then down (results or blocks), or only one way. Several
// trees carry parts of the vector. With several segments, up and down have channels of their own.
class TreeSchedule final : public PlannedRecipe {
 public:
  TreeSchedule(const Request& request, std::vector<Tree> trees, uint64_t segments)
      : PlannedRecipe(request, static_cast<uint32_t>(trees[0].parent.size())),
        trees_(std::move(trees)) {
    const uint64_t width = layout_.width();
    if (reduces(request_.operation)) {
      elements_ = layout_.vector_bytes() / width;
    } else if (request_.operation != CCOM_BARRIER) {
      elements_ = request_.count;
    }
    choose_ways();
    const bool whole = gathers_ || scatters_;
    const uint64_t most = std::max<uint64_t>(1, elements_ / trees_.size());
    segments_ = whole ? 1 : std::clamp<uint64_t>(segments, 1, most);
    split_ = segments_ > 1 && up_ && down_;
    parts_ = Partition(elements_, trees_.size());
    if (gathers_ || scatters_) {
      const Tree& tree = trees_[0];
      starts_.resize(ranks_ + 1);
      for (uint32_t i = 0; i < ranks_; ++i) {
        starts_[i + 1] = starts_[i] + layout_.bytes(tree.tour[i]);
      }
    }
    const bool counted = request_.operation != CCOM_BARRIER;
    empty_ = counted && (gathers_ || scatters_ ? starts_.back() == 0 : elements_ == 0);
  }

  uint32_t channels() const override {
    return static_cast<uint32_t>(trees_.size()) * (split_ ? 2 : 1);
  }

  uint64_t scratch_bytes(Rank rank) const override {
    return sums_offset(rank, static_cast<uint32_t>(trees_.size())) + blocks_bytes(rank);
  }

  bool emit(Rank rank, uint32_t channel, uint64_t index, Script& script) const override {
    if (empty_) return false;
    const uint32_t number = split_ ? channel / 2 : channel;
    if (!split_) {
      if (index >= segments_ * (up_ && down_ ? 2 : 1)) return false;
      // If down has no channel of its own, it follows up.
      if (up_ && index < segments_) {
        climb(rank, number, index, script);
      } else {
        descend(rank, number, index % segments_, script);
      }
      return true;
    }
    if (index >= segments_) return false;
    if (channel % 2 == 0) {
      climb(rank, number, index, script);
    } else {
      script.wait(channel - 1, (index + 1) * climb_steps(rank, number));
      descend(rank, number, index, script);
    }
    return true;
  }

 private:
  void choose_ways() {
    switch (request_.operation) {
      case CCOM_ALL_REDUCE:
      case CCOM_BARRIER:
        up_ = down_ = true;
        break;
      case CCOM_ALL_GATHER:
      case CCOM_ALL_GATHER_V:
        up_ = down_ = gathers_ = true;
        break;
      case CCOM_REDUCE_SCATTER:
      case CCOM_REDUCE_SCATTER_V:
        up_ = down_ = scatters_ = true;
        break;
      case CCOM_REDUCE:
        up_ = true;
        break;
      case CCOM_GATHER:
        up_ = gathers_ = true;
        break;
      case CCOM_BROADCAST:
        down_ = true;
        break;
      default:
        down_ = scatters_ = true;
        break;
    }
  }

  bool sums() const { return reduces(request_.operation); }

  struct Range {
    uint64_t offset;
    uint64_t bytes;
  };
  // One segment of a tree's part of the vector.
  Range segment(uint32_t number, uint64_t index) const {
    const Partition cut(parts_.size(number), segments_);
    const uint64_t width = layout_.width();
    return {(parts_.offset(number) + cut.offset(index)) * width, cut.size(index) * width};
  }
  uint64_t segment_bytes(uint32_t number) const {
    return Partition(parts_.size(number), segments_).largest() * layout_.width();
  }

  // Scratch holds two sets of slots for each tree (children, then the sum), which segments use in
  // turn. Then follow the blocks of the ranks below, and at the root of a scatter the whole sum.
  uint64_t sums_bytes(Rank rank, uint32_t number) const {
    if (!sums()) return 0;
    return 2 * (uint64_t{trees_[number].child_count(rank)} + 1) * segment_bytes(number);
  }
  uint64_t sums_offset(Rank rank, uint32_t number) const {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < number; ++i) offset += sums_bytes(rank, i);
    return offset;
  }
  uint64_t blocks_bytes(Rank rank) const {
    if (!gathers_ && !scatters_) return 0;
    const Tree& tree = trees_[0];
    const uint64_t blocks = starts_[tree.last[rank]] - starts_[tree.first[rank]];
    return blocks + (sums() && rank == tree.root ? layout_.vector_bytes() : 0);
  }
  Slice blocks(Rank rank) const {
    return {Buffer::kScratch, sums_offset(rank, static_cast<uint32_t>(trees_.size()))};
  }
  Slice whole_sum(Rank rank) const { return blocks(rank) + starts_.back(); }

  uint64_t climb_steps(Rank rank, uint32_t number) const {
    const uint32_t children = trees_[number].child_count(rank);
    // Without bytes there is no reduction.
    const bool reducing = children != 0 && parts_.size(number) >= segments_;
    return children + (reducing ? 1 : 0) + (trees_[number].parent[rank] != Tree::kNone ? 1 : 0);
  }

  void climb(Rank rank, uint32_t number, uint64_t index, Script& script) const {
    if (gathers_) return gather(rank, script);
    if (sums()) return reduce(rank, number, index, script);
    const Tree& tree = trees_[number];  // barrier
    tree.children(rank, [&](Rank child) { script.receive(child, {}, 0); });
    if (tree.parent[rank] != Tree::kNone) script.send(tree.parent[rank], {}, 0);
  }

  void reduce(Rank rank, uint32_t number, uint64_t index, Script& script) const {
    const Tree& tree = trees_[number];
    const Range range = segment(number, index);
    const uint64_t stride = segment_bytes(number);
    const uint32_t children = tree.child_count(rank);
    const Slice own = layout_.input(rank, range.offset);
    const Slice slots{Buffer::kScratch,
                      sums_offset(rank, number) + index % 2 * (uint64_t{children} + 1) * stride};
    Script::Reduction sum;
    std::vector<Rank> order;
    tree.children(rank, [&](Rank child) { order.push_back(child); });
    std::sort(order.begin(), order.end());
    for (const Rank child : order) {
      if (child < rank) ++sum.own_index;
      script.receive(child, slots + sum.count * stride, range.bytes);
      ++sum.count;
    }
    const bool root = rank == tree.root;
    sum.source = slots;
    sum.stride = stride;
    sum.has_own = true;
    sum.own = own;
    sum.destination = slots + children * stride;
    if (root) {
      sum.destination =
          scatters_ ? whole_sum(rank) + range.offset : layout_.output(rank, range.offset);
    }
    sum.bytes = range.bytes;
    sum.complete = root;
    sum.vector_offset = range.offset;
    if (children != 0 || root) script.reduce(sum);
    if (!root) script.send(tree.parent[rank], children == 0 ? own : sum.destination, range.bytes);
  }

  // Gathers the blocks of the ranks below, in the order of the tour.
  void gather(Rank rank, Script& script) const {
    const Tree& tree = trees_[0];
    const Slice place = blocks(rank);
    const uint64_t first = starts_[tree.first[rank]];
    const uint64_t bytes = starts_[tree.last[rank]] - first;
    const bool leaf = tree.last[rank] == tree.first[rank] + 1;
    tree.children(rank, [&](Rank child) {
      const uint64_t start = starts_[tree.first[child]];
      script.receive(child, place + (start - first), starts_[tree.last[child]] - start);
    });
    if (rank != tree.root) {
      if (!leaf) script.copy(layout_.input(rank, 0), place, layout_.bytes(rank));
      script.send(tree.parent[rank], leaf ? layout_.input(rank, 0) : place, bytes);
      return;
    }
    script.copy(layout_.input(rank, 0), layout_.output(rank, layout_.offset(rank)),
                layout_.bytes(rank));
    by_rank(1, [&](Rank to, uint64_t start, uint64_t size) {
      script.copy(place + start, layout_.output(rank, layout_.offset(to)), size);
    });
  }

  // Visits the ranges of the tour, from place `from` on, that are also contiguous in the buffer.
  template <class Visit>
  void by_rank(uint32_t from, Visit visit) const {
    const Tree& tree = trees_[0];
    for (uint32_t i = from; i < ranks_;) {
      uint32_t end = i + 1;
      while (end < ranks_ && layout_.offset(tree.tour[end]) ==
                                 layout_.offset(tree.tour[i]) + starts_[end] - starts_[i]) {
        ++end;
      }
      visit(tree.tour[i], starts_[i], starts_[end] - starts_[i]);
      i = end;
    }
  }

  void descend(Rank rank, uint32_t number, uint64_t index, Script& script) const {
    if (scatters_) return scatter(rank, script);
    const Tree& tree = trees_[number];
    const bool root = rank == tree.root;
    const auto pass = [&](uint64_t offset, uint64_t bytes) {
      const bool given = root && request_.operation == CCOM_BROADCAST;
      const Slice output = layout_.output(rank, offset);
      if (!root) script.receive(tree.parent[rank], output, bytes);
      const Slice source = given ? layout_.input(rank, offset) : output;
      tree.children(rank, [&](Rank child) { script.send(child, source, bytes); });
      if (given) script.copy(source, output, bytes);
    };
    if (request_.operation == CCOM_BARRIER) {
      if (!root) script.receive(tree.parent[rank], {}, 0);
      tree.children(rank, [&](Rank child) { script.send(child, {}, 0); });
    } else if (request_.operation == CCOM_ALL_GATHER_V) {
      for (Rank block = 0; block < ranks_; ++block) {
        if (layout_.bytes(block) != 0) pass(layout_.offset(block), layout_.bytes(block));
      }
    } else if (gathers_) {
      pass(0, starts_.back());
    } else {
      const Range range = segment(number, index);
      pass(range.offset, range.bytes);
    }
  }

  void scatter(Rank rank, Script& script) const {
    const Tree& tree = trees_[0];
    const Slice place = blocks(rank);
    const uint64_t first = starts_[tree.first[rank]];
    const bool leaf = tree.last[rank] == tree.first[rank] + 1;
    const Slice output = layout_.output(rank, 0);
    if (rank == tree.root) {
      const auto source = [&](Rank of) {
        const uint64_t offset = layout_.offset(of);
        return sums() ? whole_sum(rank) + offset : layout_.input(rank, offset);
      };
      by_rank(1, [&](Rank to, uint64_t start, uint64_t size) {
        script.copy(source(to), place + start, size);
      });
      script.copy(source(rank), output, layout_.bytes(rank));
    } else {
      const uint64_t bytes = starts_[tree.last[rank]] - first;
      script.receive(tree.parent[rank], leaf ? output : place, bytes);
      if (!leaf) script.copy(place, output, layout_.bytes(rank));
    }
    tree.children(rank, [&](Rank child) {
      const uint64_t start = starts_[tree.first[child]];
      script.send(child, place + (start - first), starts_[tree.last[child]] - start);
    });
  }

  const std::vector<Tree> trees_;
  uint64_t elements_ = 0;
  uint64_t segments_ = 1;
  Partition parts_;
  std::vector<uint64_t> starts_;  // first byte of the blocks from a place of the tour on
  bool up_ = false, down_ = false;
  bool gathers_ = false, scatters_ = false;
  bool split_ = false;
  bool empty_ = false;
};

Rank root_of(const Request& request) {
  return request.operation == CCOM_BROADCAST || request.operation == CCOM_REDUCE ||
                 request.operation == CCOM_GATHER || request.operation == CCOM_SCATTER
             ? request.root
             : 0;
}

}  // namespace

std::shared_ptr<const Schedule> make_tree(const Request& request, uint32_t ranks,
                                          uint64_t segments) {
  std::vector<Tree> trees;
  const bool both = segments > 1 && ranks > 2;
  if (both && request.operation == CCOM_ALL_REDUCE) {
    trees = {binary_tree(ranks, false), binary_tree(ranks, true)};
  } else if (both && (request.operation == CCOM_BROADCAST || request.operation == CCOM_REDUCE)) {
    trees = {rooted_binary_tree(ranks, request.root, false),
             rooted_binary_tree(ranks, request.root, true)};
  } else {
    trees = {binomial_tree(ranks, root_of(request))};
  }
  return std::make_shared<TreeSchedule>(request, std::move(trees), segments);
}

std::shared_ptr<const Schedule> make_chain(const Request& request, uint32_t ranks,
                                           uint64_t segments) {
  std::vector<Tree> trees = {chain_tree(ranks, root_of(request))};
  return std::make_shared<TreeSchedule>(request, std::move(trees), segments);
}

std::shared_ptr<const Schedule> make_node_tree(const Request& request, const Places& places,
                                               uint64_t segments) {
  std::vector<Tree> trees = {node_tree(places, root_of(request))};
  return std::make_shared<TreeSchedule>(request, std::move(trees), segments);
}

}  // namespace neuron::ccom
