// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccom/plan/algorithms.h"
#include "ccom/schedule/partition.h"

namespace neuron::ccom {
namespace {

class Mesh final : public PlannedRecipe {
 public:
  Mesh(const Request& request, uint32_t ranks, bool one_step, bool pairwise)
      : PlannedRecipe(request, ranks), one_step_(one_step), batch_(pairwise ? 1 : kPeersAtOnce) {
    batches_ = (ranks_ - 1 + batch_ - 1) / batch_;
    parts_ = Partition(request_.count, ranks_);
    empty_ = request_.operation != CCOM_BARRIER && request_.count == 0 && request_.counts.empty() &&
             request_.send_counts.empty();
    if (even_blocks(request_)) period_ = 1;
    if (request_.operation != CCOM_SEND_RECEIVE && request_.operation != CCOM_PERMUTE) return;
    targets_.assign(ranks_, kNobody);
    sources_.assign(ranks_, kNobody);
    for (const ccom_pair_t& pair : request_.pairs) {
      targets_[pair.source] = pair.target;
      sources_[pair.target] = pair.source;
    }
  }

  uint64_t scratch_bytes(Rank rank) const override {
    const uint64_t width = layout_.width();
    switch (request_.operation) {
      case CCOM_ALL_REDUCE:
        return (ranks_ - 1) * (one_step_ ? request_.count : parts_.size(rank)) * width;
      case CCOM_REDUCE_SCATTER:
      case CCOM_REDUCE_SCATTER_V:
        return (ranks_ - 1) * layout_.bytes(rank);
      case CCOM_REDUCE:
        if (one_step_) return rank == request_.root ? (ranks_ - 1) * request_.count * width : 0;
        return ranks_ * parts_.size(rank) * width;
      case CCOM_ALL_TO_ALL:
      case CCOM_ALL_TO_ALL_V:
        return request_.in_place ? layout_.input_bytes(rank) : 0;
      case CCOM_SEND_RECEIVE:
      case CCOM_PERMUTE:
        return request_.in_place ? request_.count * width : 0;
      default:
        return 0;
    }
  }

  bool emit(Rank rank, uint32_t, uint64_t index, Script& script) const override {
    if (empty_) return false;
    switch (request_.operation) {
      case CCOM_ALL_REDUCE:
        return one_step_ ? all_at_once(rank, index, script) : all_reduce(rank, index, script);
      case CCOM_REDUCE_SCATTER:
      case CCOM_REDUCE_SCATTER_V:
        return reduce_scatter(rank, index, script);
      case CCOM_ALL_GATHER:
      case CCOM_ALL_GATHER_V:
        return all_gather(rank, index, script);
      case CCOM_ALL_TO_ALL:
      case CCOM_ALL_TO_ALL_V:
        return all_to_all(rank, index, script);
      case CCOM_BROADCAST:
        return one_step_ ? star(rank, index, script) : broadcast(rank, index, script);
      case CCOM_REDUCE:
        return one_step_ ? collect(rank, index, script) : reduce(rank, index, script);
      case CCOM_GATHER:
        return gather(rank, index, script);
      case CCOM_SCATTER:
        return scatter(rank, index, script);
      case CCOM_SEND_RECEIVE:
      case CCOM_PERMUTE:
        return permute(rank, index, script);
      case CCOM_BARRIER:
        return exchange(
            rank, index, script, [&](Rank peer) { script.send(peer, {}, 0); },
            [&](Rank peer) { script.receive(peer, {}, 0); });
      default:
        return false;
    }
  }

 private:
  // One batch of an exchange with all others; false after the last.
  template <class Send, class Receive>
  bool exchange(Rank rank, uint64_t batch, Script&, Send send, Receive receive) const {
    if (batch >= batches_) return false;
    const uint64_t end = std::min<uint64_t>((batch + 1) * batch_, ranks_ - 1);
    for (uint64_t i = batch * batch_ + 1; i <= end; ++i) send(plus(rank, i));
    for (uint64_t i = batch * batch_ + 1; i <= end; ++i) receive(minus(rank, i));
    return true;
  }

  uint64_t part_offset(Rank rank) const { return parts_.offset(rank) * layout_.width(); }
  uint64_t part_bytes(Rank rank) const { return parts_.size(rank) * layout_.width(); }

  // The place in scratch for the contribution of `peer`; the rank's own contribution has none.
  static Slice slot(Rank rank, Rank peer, uint64_t bytes) {
    return {Buffer::kScratch, (peer < rank ? peer : peer - 1) * bytes};
  }

  void sum(Rank rank, uint64_t bytes, const Slice& own, const Slice& destination,
           uint64_t vector_offset, Script& script) const {
    Script::Reduction reduction;
    reduction.source = {Buffer::kScratch, 0};
    reduction.count = ranks_ - 1;
    reduction.stride = bytes;
    reduction.has_own = true;
    reduction.own = own;
    reduction.own_index = rank;
    reduction.destination = destination;
    reduction.bytes = bytes;
    reduction.complete = true;
    reduction.vector_offset = vector_offset;
    script.reduce(reduction);
  }

  bool all_at_once(Rank rank, uint64_t index, Script& script) const {
    const uint64_t bytes = request_.count * layout_.width();
    if (exchange(
            rank, index, script,
            [&](Rank peer) { script.send(peer, layout_.input(rank, 0), bytes); },
            [&](Rank peer) { script.receive(peer, slot(rank, peer, bytes), bytes); })) {
      return true;
    }
    if (index > batches_) return false;
    sum(rank, bytes, layout_.input(rank, 0), layout_.output(rank, 0), 0, script);
    return true;
  }

  // Sends the ranks' parts of the vector to their owners; then forms the sum at `destination`.
  bool collect_parts(Rank rank, uint64_t index, const Slice& destination, Script& script) const {
    const uint64_t bytes = part_bytes(rank);
    if (exchange(
            rank, index, script,
            [&](Rank peer) {
              script.send(peer, layout_.input(rank, part_offset(peer)), part_bytes(peer));
            },
            [&](Rank peer) { script.receive(peer, slot(rank, peer, bytes), bytes); })) {
      return true;
    }
    if (index > batches_) return false;
    sum(rank, bytes, layout_.input(rank, part_offset(rank)), destination, part_offset(rank),
        script);
    return true;
  }

  bool all_reduce(Rank rank, uint64_t index, Script& script) const {
    if (collect_parts(rank, index, layout_.output(rank, part_offset(rank)), script)) return true;
    return spread_parts(rank, index - batches_ - 1, script);
  }

  bool spread_parts(Rank rank, uint64_t index, Script& script) const {
    return exchange(
        rank, index, script,
        [&](Rank peer) {
          script.send(peer, layout_.output(rank, part_offset(rank)), part_bytes(rank));
        },
        [&](Rank peer) {
          script.receive(peer, layout_.output(rank, part_offset(peer)), part_bytes(peer));
        });
  }

  bool reduce_scatter(Rank rank, uint64_t index, Script& script) const {
    const uint64_t bytes = layout_.bytes(rank);
    if (exchange(
            rank, index, script,
            [&](Rank peer) {
              script.send(peer, layout_.input(rank, layout_.offset(peer)), layout_.bytes(peer));
            },
            [&](Rank peer) { script.receive(peer, slot(rank, peer, bytes), bytes); })) {
      return true;
    }
    if (index > batches_) return false;
    sum(rank, bytes, layout_.input(rank, layout_.offset(rank)), layout_.output(rank, 0),
        layout_.offset(rank), script);
    return true;
  }

  bool all_gather(Rank rank, uint64_t index, Script& script) const {
    const uint64_t bytes = layout_.bytes(rank);
    if (exchange(
            rank, index, script,
            [&](Rank peer) { script.send(peer, layout_.input(rank, 0), bytes); },
            [&](Rank peer) {
              script.receive(peer, layout_.output(rank, layout_.offset(peer)), layout_.bytes(peer));
            })) {
      return true;
    }
    if (index > batches_) return false;
    script.copy(layout_.input(rank, 0), layout_.output(rank, layout_.offset(rank)), bytes);
    return true;
  }

  // In place, all outgoing blocks are copied aside first, as incoming blocks may overwrite them.
  bool all_to_all(Rank rank, uint64_t index, Script& script) const {
    const auto source = [&](Rank peer) {
      const uint64_t offset = layout_.send_offset(rank, peer);
      return request_.in_place ? Slice{Buffer::kScratch, offset} : layout_.input(rank, offset);
    };
    const uint64_t aside = request_.in_place ? (ranks_ + kCopiesAtOnce - 1) / kCopiesAtOnce : 0;
    if (index < aside) {
      const uint64_t end = std::min<uint64_t>((index + 1) * kCopiesAtOnce, ranks_);
      for (uint64_t i = index * kCopiesAtOnce; i < end; ++i) {
        const auto peer = static_cast<Rank>(i);
        const uint64_t offset = layout_.send_offset(rank, peer);
        if (peer == rank && offset == layout_.receive_offset(rank, rank)) continue;
        script.copy(layout_.input(rank, offset), {Buffer::kScratch, offset},
                    layout_.pair_bytes(rank, peer));
      }
      return true;
    }
    index -= aside;
    if (exchange(
            rank, index, script,
            [&](Rank peer) { script.send(peer, source(peer), layout_.pair_bytes(rank, peer)); },
            [&](Rank peer) {
              script.receive(peer, layout_.output(rank, layout_.receive_offset(rank, peer)),
                             layout_.pair_bytes(peer, rank));
            })) {
      return true;
    }
    if (index > batches_) return false;
    const bool there = layout_.send_offset(rank, rank) == layout_.receive_offset(rank, rank);
    if (request_.in_place && there) return true;
    script.copy(source(rank), layout_.output(rank, layout_.receive_offset(rank, rank)),
                layout_.pair_bytes(rank, rank));
    return true;
  }

  // Exchanges the root's data with every other rank; a non-root has a single part.
  template <class Root, class Other>
  bool with_root(Rank rank, uint64_t index, Root root, Other other) const {
    if (rank != request_.root) {
      if (index != 0) return false;
      other();
      return true;
    }
    if (index >= batches_) return false;
    const uint64_t end = std::min<uint64_t>((index + 1) * batch_, ranks_ - 1);
    for (uint64_t i = index * batch_ + 1; i <= end; ++i) root(plus(rank, i));
    return true;
  }

  bool star(Rank rank, uint64_t index, Script& script) const {
    const uint64_t bytes = request_.count * layout_.width();
    if (with_root(
            rank, index, [&](Rank peer) { script.send(peer, layout_.input(rank, 0), bytes); },
            [&] { script.receive(request_.root, layout_.output(rank, 0), bytes); })) {
      return true;
    }
    if (rank != request_.root || index > batches_) return false;
    script.copy(layout_.input(rank, 0), layout_.output(rank, 0), bytes);
    return true;
  }

  bool collect(Rank rank, uint64_t index, Script& script) const {
    const uint64_t bytes = request_.count * layout_.width();
    if (with_root(
            rank, index, [&](Rank peer) { script.receive(peer, slot(rank, peer, bytes), bytes); },
            [&] { script.send(request_.root, layout_.input(rank, 0), bytes); })) {
      return true;
    }
    if (rank != request_.root || index > batches_) return false;
    sum(rank, bytes, layout_.input(rank, 0), layout_.output(rank, 0), 0, script);
    return true;
  }

  // Sends a part to each rank, then every part to all ranks.
  bool broadcast(Rank rank, uint64_t index, Script& script) const {
    const Rank root = request_.root;
    const uint64_t first = rank == root ? batches_ + 1 : 1;
    if (index < first) {
      if (rank != root) {
        script.receive(root, layout_.output(rank, part_offset(rank)), part_bytes(rank));
      } else if (!with_root(
                     rank, index,
                     [&](Rank peer) {
                       script.send(peer, layout_.input(rank, part_offset(peer)), part_bytes(peer));
                     },
                     [] {})) {
        script.copy(layout_.input(rank, 0), layout_.output(rank, 0),
                    request_.count * layout_.width());
      }
      return true;
    }
    // The root has all parts, so no rank sends to it.
    const uint64_t bytes = part_bytes(rank);
    return exchange(
        rank, index - first, script,
        [&](Rank peer) {
          if (peer == root) return;
          script.send(peer,
                      rank == root ? layout_.input(rank, part_offset(rank))
                                   : layout_.output(rank, part_offset(rank)),
                      bytes);
        },
        [&](Rank peer) {
          if (rank == root) return;
          script.receive(peer, layout_.output(rank, part_offset(peer)), part_bytes(peer));
        });
  }

  bool reduce(Rank rank, uint64_t index, Script& script) const {
    const Rank root = request_.root;
    const uint64_t bytes = part_bytes(rank);
    const Slice sums = rank == root ? layout_.output(rank, part_offset(rank))
                                    : Slice{Buffer::kScratch, (ranks_ - 1) * bytes};
    if (collect_parts(rank, index, sums, script)) return true;
    return with_root(
        rank, index - batches_ - 1,
        [&](Rank peer) {
          script.receive(peer, layout_.output(rank, part_offset(peer)), part_bytes(peer));
        },
        [&] { script.send(root, sums, bytes); });
  }

  bool gather(Rank rank, uint64_t index, Script& script) const {
    if (with_root(
            rank, index,
            [&](Rank peer) {
              script.receive(peer, layout_.output(rank, layout_.offset(peer)), layout_.bytes(peer));
            },
            [&] { script.send(request_.root, layout_.input(rank, 0), layout_.bytes(rank)); })) {
      return true;
    }
    if (rank != request_.root || index > batches_) return false;
    script.copy(layout_.input(rank, 0), layout_.output(rank, layout_.offset(rank)),
                layout_.bytes(rank));
    return true;
  }

  bool scatter(Rank rank, uint64_t index, Script& script) const {
    if (with_root(
            rank, index,
            [&](Rank peer) {
              script.send(peer, layout_.input(rank, layout_.offset(peer)), layout_.bytes(peer));
            },
            [&] { script.receive(request_.root, layout_.output(rank, 0), layout_.bytes(rank)); })) {
      return true;
    }
    if (rank != request_.root || index > batches_) return false;
    script.copy(layout_.input(rank, layout_.offset(rank)), layout_.output(rank, 0),
                layout_.bytes(rank));
    return true;
  }

  bool permute(Rank rank, uint64_t index, Script& script) const {
    if (index != 0) return false;
    const uint64_t bytes = request_.count * layout_.width();
    const Slice output = layout_.output(rank, 0);
    Slice landing = output;
    const Rank target = targets_[rank], source = sources_[rank];
    if (target == rank) {
      script.copy(layout_.input(rank, 0), output, bytes);
      return true;
    }
    if (target != kNobody) {
      script.send(target, layout_.input(rank, 0), bytes);
      if (request_.in_place) landing = {Buffer::kScratch, 0};
    }
    if (source == kNobody) return true;
    script.receive(source, landing, bytes);
    script.copy(landing, output, bytes);
    return true;
  }

  static constexpr Rank kNobody = ~Rank{0};

  bool one_step_;
  uint64_t batch_;
  std::vector<Rank> targets_, sources_;  // send_receive and permute, by rank
  uint64_t batches_ = 0;
  Partition parts_;
  bool empty_ = false;
};

}  // namespace

std::shared_ptr<const Schedule> make_mesh(const Request& request, uint32_t ranks, bool one_step,
                                          bool pairwise) {
  return std::make_shared<Mesh>(request, ranks, one_step, pairwise);
}

}  // namespace neuron::ccom
