// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccom/plan/algorithms.h"
#include "ccom/schedule/partition.h"

namespace neuron::ccom {
namespace {

// Doubling and halving among a power of two of ranks. Each other rank first hands its contribution
// to a neighbour, and gets the result from it last. Ranks are counted from the root.
class Recursive final : public PlannedRecipe {
 public:
  Recursive(const Request& request, uint32_t ranks, bool whole_vector)
      : PlannedRecipe(request, ranks) {
    while (core_ * 2 <= ranks_) core_ *= 2, ++levels_;
    extra_ = ranks_ - core_;
    parts_ = Partition(request_.count, core_);
    whole_ = whole_vector && request_.operation == CCOM_ALL_REDUCE;
    if (request_.operation == CCOM_BROADCAST || request_.operation == CCOM_REDUCE) {
      root_ = request_.root;
    }
    empty_ = request_.operation != CCOM_BARRIER && request_.count == 0;
    if (request_.operation == CCOM_BARRIER) period_ = 1;
  }

  uint64_t scratch_bytes(Rank) const override {
    if (!sums()) return 0;
    return layout_.vector_bytes() * (sums_in_scratch() ? 2 : 1);
  }

  bool emit(Rank rank, uint32_t, uint64_t index, Script& script) const override {
    if (empty_) return false;
    if (request_.operation == CCOM_BARRIER) return dissemination(rank, index, script);
    const uint32_t relative = minus(rank, root_);
    const bool folded = relative < 2 * extra_ && relative % 2 == 1;
    if (folded) {
      if (index != 0) return false;
      fold(rank, script);
      return true;
    }
    const uint32_t id = relative < 2 * extra_ ? relative / 2 : relative - extra_;
    const Rank partner = relative < 2 * extra_ ? plus(rank, 1) : rank;  // rank itself: none
    if (index == 0) {
      begin(rank, partner, script);
    } else if (index <= levels_) {
      first_half(rank, id, static_cast<uint32_t>(index) - 1, script);
    } else if (index <= 2 * levels_ && !whole_) {
      second_half(rank, id, static_cast<uint32_t>(index - levels_) - 1, script);
    } else if (index == (whole_ ? 1 : 2) * levels_ + 1) {
      end(rank, partner, script);
    } else {
      return false;
    }
    return true;
  }

 private:
  bool sums() const { return reduces(request_.operation); }
  bool rooted() const { return request_.operation == CCOM_REDUCE; }
  bool sums_in_scratch() const {
    return request_.operation == CCOM_REDUCE_SCATTER || request_.operation == CCOM_REDUCE;
  }

  Rank rank_of(uint32_t id) const { return plus(root_, id < extra_ ? 2 * id : id + extra_); }

  // The first byte of the parts of `id` and above.
  uint64_t start(uint32_t id) const {
    if (request_.operation == CCOM_ALL_GATHER || request_.operation == CCOM_REDUCE_SCATTER) {
      return (id < extra_ ? 2 * uint64_t{id} : uint64_t{id} + extra_) * layout_.bytes(0);
    }
    return parts_.offset(id) * layout_.width();
  }

  // The place of sums and gathered parts.
  Slice vector(Rank rank) const {
    if (!sums_in_scratch() || (rooted() && rank == root_)) return layout_.output(rank, 0);
    return {Buffer::kScratch, layout_.vector_bytes()};
  }
  // Whether the rank's data is a sum already; before that, it is the input.
  bool summed(Rank rank, uint32_t level) const {
    return level != 0 || minus(rank, root_) < 2 * extra_;
  }

  void fold(Rank rank, Script& script) const {
    const Rank partner = minus(rank, 1);
    const uint64_t bytes = layout_.bytes(rank);
    switch (request_.operation) {
      case CCOM_ALL_GATHER:
        script.send(partner, layout_.input(rank, 0), bytes);
        script.receive(partner, layout_.output(rank, 0), ranks_ * bytes);
        break;
      case CCOM_BROADCAST:
        script.receive(partner, layout_.output(rank, 0), bytes);
        break;
      default:
        script.send(partner, layout_.input(rank, 0), layout_.vector_bytes());
        if (!rooted()) {
          const bool scatter = request_.operation == CCOM_REDUCE_SCATTER;
          script.receive(partner, layout_.output(rank, 0),
                         scatter ? bytes : layout_.vector_bytes());
        }
    }
  }

  void begin(Rank rank, Rank partner, Script& script) const {
    if (request_.operation == CCOM_BROADCAST) {
      if (rank == root_) {
        script.copy(layout_.input(rank, 0), layout_.output(rank, 0), layout_.bytes(rank));
      }
      return;
    }
    if (!sums()) {
      const uint64_t bytes = layout_.bytes(rank);
      script.copy(layout_.input(rank, 0), layout_.output(rank, layout_.offset(rank)), bytes);
      if (partner != rank) {
        script.receive(partner, layout_.output(rank, layout_.offset(partner)), bytes);
      }
      return;
    }
    const uint64_t bytes = layout_.vector_bytes();
    if (partner == rank) {
      if (core_ == 1) script.copy(layout_.input(rank, 0), vector(rank), bytes);
      return;
    }
    script.receive(partner, {Buffer::kScratch, 0}, bytes);
    add(rank, rank < partner, layout_.input(rank, 0), vector(rank), 0, bytes, core_ == 1, script);
  }

  // Adds what has arrived at the same offset of the scratch buffer.
  void add(Rank, bool own_first, const Slice& own, const Slice& destination, uint64_t offset,
           uint64_t bytes, bool complete, Script& script) const {
    Script::Reduction sum;
    sum.source = {Buffer::kScratch, offset};
    sum.count = 1;
    sum.stride = bytes;
    sum.has_own = true;
    sum.own = own + offset;
    sum.own_index = own_first ? 0 : 1;
    sum.destination = destination + offset;
    sum.bytes = bytes;
    sum.complete = complete;
    sum.vector_offset = offset;
    script.reduce(sum);
  }

  // Sums: halving, or doubling of the whole vector. Broadcast: parts spread from the root's side.
  void first_half(Rank rank, uint32_t id, uint32_t level, Script& script) const {
    if (request_.operation == CCOM_ALL_GATHER) return;
    const uint32_t bit = whole_ ? 1u << level : core_ >> (level + 1);
    const uint32_t other = id ^ bit;
    const Rank peer = rank_of(other);
    const bool complete = level + 1 == levels_;
    if (request_.operation == CCOM_BROADCAST) {
      if ((id & (bit - 1)) != 0) return;
      const uint32_t low = id | bit;
      const uint64_t offset = start(low), bytes = start(low + bit) - offset;
      if (other > id) {
        script.send(peer, layout_.output(rank, offset), bytes);
      } else {
        script.receive(peer, layout_.output(rank, offset), bytes);
      }
      return;
    }
    const Slice own = summed(rank, level) ? vector(rank) : layout_.input(rank, 0);
    if (whole_) {
      const uint64_t bytes = layout_.vector_bytes();
      script.send(peer, own, bytes);
      script.receive(peer, {Buffer::kScratch, 0}, bytes);
      add(rank, id < other, own, vector(rank), 0, bytes, complete, script);
      return;
    }
    // Keeps the half that contains its own id.
    const uint32_t mine = id & ~(bit - 1), theirs = other & ~(bit - 1);
    const uint64_t away = start(theirs), keep = start(mine);
    script.send(peer, own + away, start(theirs + bit) - away);
    const uint64_t bytes = start(mine + bit) - keep;
    script.receive(peer, {Buffer::kScratch, keep}, bytes);
    add(rank, id < other, own, vector(rank), keep, bytes, complete, script);
  }

  // Gathers by doubling. Reduce: gathers towards the root.
  void second_half(Rank rank, uint32_t id, uint32_t level, Script& script) const {
    if (request_.operation == CCOM_REDUCE_SCATTER) return;
    const uint32_t bit = 1u << level;
    const uint32_t other = id ^ bit;
    const Rank peer = rank_of(other);
    const uint32_t mine = id & ~(bit - 1), theirs = other & ~(bit - 1);
    const uint64_t offset = start(mine), bytes = start(mine + bit) - offset;
    const uint64_t comes = start(theirs), coming = start(theirs + bit) - comes;
    const Slice data = vector(rank);
    if (rooted()) {
      if ((id & (bit - 1)) != 0) return;
      if (other < id) {
        script.send(peer, data + offset, bytes);
      } else {
        script.receive(peer, data + comes, coming);
      }
      return;
    }
    // Each half of a broadcast starts at the root, which needs nothing back.
    const bool had = request_.operation == CCOM_BROADCAST;
    if (!had || other != 0) script.send(peer, data + offset, bytes);
    if (!had || id != 0) script.receive(peer, data + comes, coming);
  }

  void end(Rank rank, Rank partner, Script& script) const {
    const Slice data = vector(rank);
    if (request_.operation == CCOM_REDUCE_SCATTER) {
      script.copy(data + layout_.offset(rank), layout_.output(rank, 0), layout_.bytes(rank));
      if (partner != rank) {
        script.send(partner, data + layout_.offset(partner), layout_.bytes(partner));
      }
      return;
    }
    if (partner == rank || rooted()) return;
    const bool gather = request_.operation == CCOM_ALL_GATHER;
    script.send(partner, data, gather ? ranks_ * layout_.bytes(rank) : layout_.bytes(rank));
  }

  bool dissemination(Rank rank, uint64_t index, Script& script) const {
    const uint64_t distance = uint64_t{1} << index;
    if (distance >= ranks_) return false;
    script.send(plus(rank, distance), {}, 0);
    script.receive(minus(rank, distance), {}, 0);
    return true;
  }

  uint32_t core_ = 1;    // ranks that take part in the rounds
  uint32_t levels_ = 0;  // core_ = 2 ^ levels_
  uint32_t extra_ = 0;
  Partition parts_;
  Rank root_ = 0;
  bool whole_ = false;
  bool empty_ = false;
};

}  // namespace

std::shared_ptr<const Schedule> make_recursive(const Request& request, uint32_t ranks,
                                               bool whole_vector) {
  return std::make_shared<Recursive>(request, ranks, whole_vector);
}

}  // namespace neuron::ccom
