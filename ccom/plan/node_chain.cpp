// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccom/plan/algorithms.h"
#include "ccom/schedule/partition.h"

namespace neuron::ccom {
namespace {

// All-reduce for nodes that hold the ranks in their order: the ranks of a node add their parts of
// the vector, the sums go from node to node, each of which adds its ranks' contributions behind
// them, and the last node hands out the result. So contributions are added one after the other in
// the order of the ranks, as a mesh does it, and two nodes exchange two messages a rank.
class NodeChain final : public PlannedRecipe {
 public:
  NodeChain(const Request& request, const Places& places)
      : PlannedRecipe(request, places.ranks()),
        columns_(static_cast<uint32_t>(places.nodes[0].size())),
        rows_(static_cast<uint32_t>(places.nodes.size())),
        parts_(request_.count, columns_) {}

  uint64_t scratch_bytes(Rank rank) const override {
    // What arrives, the sum of the nodes before first, and the sum that goes to the next node.
    return (uint64_t{columns_} + 1) * part_bytes(rank % columns_);
  }

  bool emit(Rank rank, uint32_t, uint64_t index, Script& script) const override {
    if (request_.count == 0) return false;
    const uint32_t row = rank / columns_, column = rank % columns_;
    switch (index) {
      case 0:
        collect(rank, row, column, script);
        return true;
      case 1:
        hand_back(rank, row, column, script);
        return true;
      case 2:
        spread(rank, row, column, script);
        return true;
      default:
        return false;
    }
  }

 private:
  uint64_t part_offset(uint32_t column) const { return parts_.offset(column) * layout_.width(); }
  uint64_t part_bytes(uint32_t column) const { return parts_.size(column) * layout_.width(); }
  // Places in scratch of `bytes` each.
  static Slice slot(uint64_t number, uint64_t bytes) { return {Buffer::kScratch, number * bytes}; }

  // One message to and from every other column of the node, a few at a time.
  template <class Send, class Receive>
  void exchange(uint32_t column, Send send, Receive receive) const {
    for (uint32_t begin = 1; begin < columns_; begin += kPeersAtOnce) {
      const uint32_t end = std::min(begin + kPeersAtOnce, columns_);
      for (uint32_t i = begin; i < end; ++i) send((column + i) % columns_);
      for (uint32_t i = begin; i < end; ++i) receive((column + columns_ - i) % columns_);
    }
  }

  void collect(Rank rank, uint32_t row, uint32_t column, Script& script) const {
    const uint64_t bytes = part_bytes(column);
    const Rank first = row * columns_;
    const bool last = row + 1 == rows_;
    exchange(
        column,
        [&](uint32_t other) {
          script.send(first + other, layout_.input(rank, part_offset(other)), part_bytes(other));
        },
        [&](uint32_t other) {
          script.receive(first + other, slot(1 + (other < column ? other : other - 1), bytes),
                         bytes);
        });
    if (row != 0) script.receive(rank - columns_, slot(0, bytes), bytes);
    Script::Reduction sum;
    sum.source = slot(row != 0 ? 0 : 1, bytes);
    sum.count = columns_ - (row != 0 ? 0 : 1);
    sum.stride = bytes;
    sum.has_own = true;
    sum.own = layout_.input(rank, part_offset(column));
    sum.own_index = column + (row != 0 ? 1 : 0);
    // Of its own: the place of the result is free for it from the beginning.
    sum.destination = last ? layout_.output(rank, part_offset(column)) : slot(columns_, bytes);
    sum.bytes = bytes;
    sum.complete = last;
    sum.vector_offset = part_offset(column);
    script.reduce(sum);
    if (!last) script.send(rank + columns_, sum.destination, bytes);
  }

  void hand_back(Rank rank, uint32_t row, uint32_t column, Script& script) const {
    const uint64_t bytes = part_bytes(column);
    const Slice result = layout_.output(rank, part_offset(column));
    const Rank owner = (rows_ - 1) * columns_ + column;
    if (row + 1 != rows_) return script.receive(owner, result, bytes);
    for (uint32_t other = 0; other + 1 < rows_; ++other) {
      script.send(other * columns_ + column, result, bytes);
    }
  }

  void spread(Rank rank, uint32_t row, uint32_t column, Script& script) const {
    const Rank first = row * columns_;
    exchange(
        column,
        [&](uint32_t other) {
          script.send(first + other, layout_.output(rank, part_offset(column)), part_bytes(column));
        },
        [&](uint32_t other) {
          script.receive(first + other, layout_.output(rank, part_offset(other)),
                         part_bytes(other));
        });
  }

  const uint32_t columns_;
  const uint32_t rows_;
  const Partition parts_;
};

}  // namespace

std::shared_ptr<const Schedule> make_node_chain(const Request& request, const Places& places) {
  return std::make_shared<NodeChain>(request, places);
}

}  // namespace neuron::ccom
