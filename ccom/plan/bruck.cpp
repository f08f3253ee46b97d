// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccom/plan/algorithms.h"

namespace neuron::ccom {
namespace {

// Blocks travel by powers of two, for small blocks: ceil(log2 n) messages per rank.
class Bruck final : public PlannedRecipe {
 public:
  Bruck(const Request& request, uint32_t ranks)
      : PlannedRecipe(request, ranks), block_(request_.count * layout_.width()) {
    while ((uint64_t{1} << rounds_) < ranks_) ++rounds_;
    empty_ = request_.operation != CCOM_BARRIER && block_ == 0;
    period_ = 1;
  }

  uint64_t scratch_bytes(Rank) const override {
    if (request_.operation == CCOM_ALL_GATHER) return ranks_ * block_;
    if (request_.operation == CCOM_ALL_TO_ALL) return (ranks_ + 2 * most_moved()) * block_;
    return 0;
  }

  bool emit(Rank rank, uint32_t, uint64_t index, Script& script) const override {
    if (empty_) return false;
    if (index == 0) {
      turn_in(rank, script);
      return true;
    }
    --index;
    if (request_.operation != CCOM_ALL_TO_ALL) {
      if (index > rounds_) return false;
      if (index < rounds_) {
        round(rank, index, script);
      } else {
        turn_out(rank, 0, script);
      }
      return true;
    }
    for (uint64_t number = 0; number < rounds_; ++number) {
      const uint64_t parts = 2 * batches(number) + 1;
      if (index < parts) {
        exchange(rank, number, index, script);
        return true;
      }
      index -= parts;
    }
    if (index * kCopiesAtOnce >= ranks_) return false;
    turn_out(rank, index, script);
    return true;
  }

 private:
  Slice block(uint64_t number) const { return {Buffer::kScratch, number * block_}; }

  // The number of blocks whose number has the bit.
  uint64_t moved(uint64_t bit) const {
    uint64_t count = 0;
    for (uint64_t i = bit; i < ranks_; i += 2 * bit) count += std::min(bit, ranks_ - i);
    return count;
  }
  uint64_t most_moved() const {
    uint64_t most = 0;
    for (uint64_t round = 0; round < rounds_; ++round) {
      most = std::max(most, moved(uint64_t{1} << round));
    }
    return most;
  }

  // Puts the blocks in order: block i is for the rank i further on (all-gather: it comes from that
  // rank).
  void turn_in(Rank rank, Script& script) const {
    if (request_.operation == CCOM_ALL_GATHER) {
      script.copy(layout_.input(rank, 0), block(0), block_);
    } else if (request_.operation == CCOM_ALL_TO_ALL) {
      const uint64_t before = rank * block_, after = ranks_ * block_ - before;
      script.copy(layout_.input(rank, before), block(0), after);
      script.copy(layout_.input(rank, 0), {Buffer::kScratch, after}, before);
    }
  }

  void round(Rank rank, uint64_t number, Script& script) const {
    const uint64_t bit = uint64_t{1} << number;
    if (request_.operation == CCOM_ALL_GATHER) {
      const uint64_t bytes = std::min(bit, ranks_ - bit) * block_;
      script.send(minus(rank, bit), block(0), bytes);
      script.receive(plus(rank, bit), block(bit), bytes);
      return;
    }
    script.send(plus(rank, bit), {}, 0);
    script.receive(minus(rank, bit), {}, 0);
  }

  // The number of runs of blocks that a round moves, in batches.
  uint64_t batches(uint64_t number) const {
    const uint64_t bit = uint64_t{1} << number;
    const uint64_t runs = (ranks_ - bit + 2 * bit - 1) / (2 * bit);
    return (runs + kCopiesAtOnce - 1) / kCopiesAtOnce;
  }

  // All-to-all, part `part` of a round: the blocks that move are packed, sent, and put in place.
  void exchange(Rank rank, uint64_t number, uint64_t part, Script& script) const {
    const uint64_t bit = uint64_t{1} << number, count = batches(number);
    const Slice packed = block(ranks_), arrived = block(ranks_ + most_moved());
    if (part == count) {
      script.send(plus(rank, bit), packed, moved(bit) * block_);
      script.receive(minus(rank, bit), arrived, moved(bit) * block_);
      return;
    }
    const bool before = part < count;
    const uint64_t first = (before ? part : part - count - 1) * kCopiesAtOnce;
    for (uint64_t run = first; run < first + kCopiesAtOnce; ++run) {
      const uint64_t i = bit + run * 2 * bit;
      if (i >= ranks_) break;
      const uint64_t place = run * bit * block_, bytes = std::min(bit, ranks_ - i) * block_;
      if (before) {
        script.copy(block(i), packed + place, bytes);
      } else {
        script.copy(arrived + place, block(i), bytes);
      }
    }
  }

  // All-to-all: batch number `batch`.
  void turn_out(Rank rank, uint64_t batch, Script& script) const {
    if (request_.operation == CCOM_ALL_GATHER) {
      const uint64_t after = (ranks_ - rank) * block_;
      script.copy(block(0), layout_.output(rank, rank * block_), after);
      script.copy({Buffer::kScratch, after}, layout_.output(rank, 0), rank * block_);
    } else if (request_.operation == CCOM_ALL_TO_ALL) {
      const uint64_t end = std::min<uint64_t>((batch + 1) * kCopiesAtOnce, ranks_);
      for (uint64_t i = batch * kCopiesAtOnce; i < end; ++i) {
        script.copy(block(i), layout_.output(rank, minus(rank, i) * block_), block_);
      }
    }
  }

  uint64_t block_;
  uint64_t rounds_ = 0;
  bool empty_ = false;
};

// All-to-all of even nodes. A block first goes to the rank of the own node with the target's local
// number, then to the target's node.
class TwoLevel final : public PlannedRecipe {
 public:
  TwoLevel(const Request& request, const Places& places)
      : PlannedRecipe(request, places.ranks()),
        places_(places),
        columns_(static_cast<uint32_t>(places.nodes[0].size())),
        rows_(static_cast<uint32_t>(places.nodes.size())),
        block_(request_.count * layout_.width()),
        column_of_(places.ranks()) {
    for (const auto& node : places_.nodes) {
      for (uint32_t i = 0; i < columns_; ++i) column_of_[node[i]] = i;
    }
    copies_ = (ranks_ + kCopiesAtOnce - 1) / kCopiesAtOnce;
    if (places_.node_major) period_ = columns_;
  }

  uint64_t scratch_bytes(Rank) const override { return 3 * ranks_ * block_; }

  // Batches of copies, an exchange with each other column, batches of copies, an exchange with each
  // other node.
  bool emit(Rank rank, uint32_t, uint64_t index, Script& script) const override {
    const uint64_t inner = copies_ + columns_ - 1, middle_copies = inner + copies_;
    if (block_ == 0 || index >= middle_copies + rows_ - 1) return false;
    const uint32_t x = places_.node_of[rank], y = column_of_[rank];
    const uint64_t whole = ranks_ * block_;
    const Slice packed{Buffer::kScratch, 0};           // by column, then node of the target
    const Slice middle{Buffer::kScratch, whole};       // by column of the source, then node
    const Slice leaving{Buffer::kScratch, 2 * whole};  // by node of the target, then column
    const uint64_t stride = rows_ * block_;            // of a column
    const auto batch = [&](uint64_t number, auto visit) {
      const uint64_t end = std::min<uint64_t>((number + 1) * kCopiesAtOnce, ranks_);
      for (uint64_t i = number * kCopiesAtOnce; i < end; ++i) visit(i);
    };
    if (index < copies_) {
      batch(index, [&](uint64_t i) {
        const uint64_t column = i / rows_, node = i % rows_;
        const Slice to = (column == y ? middle : packed) + column * stride + node * block_;
        script.copy(layout_.input(rank, places_.nodes[node][column] * block_), to, block_);
      });
    } else if (index < inner) {
      const auto i = static_cast<uint32_t>(index - copies_ + 1);
      const uint32_t to = (y + i) % columns_, from = (y + columns_ - i) % columns_;
      script.send(places_.nodes[x][to], packed + to * stride, stride);
      script.receive(places_.nodes[x][from], middle + from * stride, stride);
    } else if (index < middle_copies) {
      batch(index - inner, [&](uint64_t i) {
        const uint64_t node = i / columns_, column = i % columns_;
        const Slice from = middle + column * stride + node * block_;
        const Slice to = node == x ? layout_.output(rank, places_.nodes[x][column] * block_)
                                   : leaving + (node * columns_ + column) * block_;
        script.copy(from, to, block_);
      });
    } else {
      const auto i = static_cast<uint32_t>(index - middle_copies + 1);
      const uint32_t to = (x + i) % rows_, from = (x + rows_ - i) % rows_;
      const uint64_t bytes = columns_ * block_;
      script.send(places_.nodes[to][y], leaving + to * bytes, bytes);
      // Overwrites the packed blocks, which have been sent by now.
      script.receive(places_.nodes[from][y], packed + from * bytes, bytes);
      for (uint32_t column = 0; column < columns_; ++column) {
        script.copy(packed + from * bytes + column * block_,
                    layout_.output(rank, places_.nodes[from][column] * block_), block_);
      }
    }
    return true;
  }

 private:
  const Places places_;
  uint32_t columns_;
  uint32_t rows_;
  uint64_t block_;
  uint64_t copies_ = 0;  // batches
  std::vector<uint32_t> column_of_;
};

}  // namespace

std::shared_ptr<const Schedule> make_bruck(const Request& request, uint32_t ranks) {
  return std::make_shared<Bruck>(request, ranks);
}

std::shared_ptr<const Schedule> make_two_level(const Request& request, const Places& places) {
  return std::make_shared<TwoLevel>(request, places);
}

}  // namespace neuron::ccom
