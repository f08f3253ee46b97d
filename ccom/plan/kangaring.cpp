// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccom/plan/algorithms.h"
#include "ccom/schedule/partition.h"

namespace neuron::ccom {
namespace {

// A ring of pairs of ranks that share a chip. The primary of the two carries the data of both (on
// every second channel, the other rank is primary). It adds three operands at a time, and hands
// results to the secondary. A chip with more ranks has several pairs, next to each other in the
// ring.
class KangaRing final : public PlannedRecipe {
 public:
  KangaRing(const Request& request, const Group& group, const Places& places, uint32_t channels)
      : PlannedRecipe(request, group.ranks()), channels_(channels), chips_(ranks_ / 2) {
    orders_ = ring_orders(group, places, channels, true);
    for (auto& order : orders_) {
      auto& position = positions_.emplace_back(ranks_);
      for (uint32_t i = 0; i < ranks_; ++i) position[order[i]] = i;
      for (uint32_t chip = 0; chip < chips_; ++chip) {  // the lower rank first, in every direction
        if (order[2 * chip] < order[2 * chip + 1]) continue;
        std::swap(order[2 * chip], order[2 * chip + 1]);
        std::swap(position[order[2 * chip]], position[order[2 * chip + 1]]);
      }
    }
    empty_ = request_.count == 0;
    if (places.even && places.node_major && places.nodes.size() > 1) {
      period_ = static_cast<uint32_t>(places.nodes[0].size());
    }
  }

  uint32_t channels() const override { return channels_; }

  // Room for two pairs of operands, two sums, and the secondary's part of the last sum.
  uint64_t scratch_bytes(Rank) const override {
    if (request_.operation == CCOM_ALL_GATHER) return 0;
    return channels_ * 7 * slot_bytes();
  }

  bool emit(Rank rank, uint32_t channel, uint64_t index, Script& script) const override {
    if (empty_) return false;
    const uint32_t position = positions_[channel][rank];
    Seat seat;
    seat.rank = rank;
    seat.channel = channel;
    seat.chip = position / 2;
    seat.primary = position % 2 == channel % 2;
    seat.other = orders_[channel][position ^ 1];
    const bool gather = request_.operation == CCOM_ALL_GATHER;
    const uint64_t first = gather ? 1 : chips_;  // parts of the first phase
    if (index < first) {
      if (gather) {
        own_blocks(seat, script);
      } else {
        add(seat, static_cast<uint32_t>(index), script);
      }
      return true;
    }
    if (request_.operation == CCOM_REDUCE_SCATTER || index - first >= chips_) return false;
    pass(seat, static_cast<uint32_t>(index - first), script);
    return true;
  }

 private:
  struct Seat {
    Rank rank = 0;
    Rank other = 0;  // of the same chip
    uint32_t channel = 0;
    uint32_t chip = 0;  // position in the ring
    bool primary = false;
  };
  struct Piece {
    Rank owner = 0;  // all-gather, reduce-scatter
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  Rank at(uint32_t channel, uint32_t chip, bool primary) const {
    return orders_[channel][2 * (chip % chips_) + (primary ? channel % 2 : 1 - channel % 2)];
  }

  uint64_t share_offset(uint32_t channel) const {
    return Partition(request_.count, channels_).offset(channel) * layout_.width();
  }
  uint64_t share_bytes(uint32_t channel) const {
    return Partition(request_.count, channels_).size(channel) * layout_.width();
  }
  uint64_t slot_bytes() const {
    const uint64_t share = Partition(request_.count, channels_).largest();
    const uint64_t most =
        request_.operation == CCOM_ALL_REDUCE ? Partition(share, chips_).largest() : 2 * share;
    return most * layout_.width();
  }

  // The pieces of a chip's block: a range of the vector, or the blocks of the chip's two ranks.
  uint32_t pieces(uint32_t channel, uint32_t chip, Piece (&result)[2]) const {
    if (request_.operation == CCOM_ALL_REDUCE) {
      const Partition cut(share_bytes(channel) / layout_.width(), chips_);
      result[0].offset = share_offset(channel) + cut.offset(chip) * layout_.width();
      result[0].bytes = cut.size(chip) * layout_.width();
      return 1;
    }
    for (uint32_t i = 0; i < 2; ++i) {
      result[i].owner = orders_[channel][2 * chip + i];
      result[i].offset = layout_.offset(result[i].owner) + share_offset(channel);
      result[i].bytes = share_bytes(channel);
    }
    return 2;
  }

  // Round `round` of the sums, about the block of the chip 1 + round places before this one.
  void add(const Seat& seat, uint32_t round, Script& script) const {
    const uint32_t chip = (seat.chip + 2 * chips_ - 1 - round) % chips_;
    const bool last = round + 1 == chips_;
    Piece piece[2], coming[2];
    const uint32_t count = pieces(seat.channel, chip, piece);
    pieces(seat.channel, (chip + chips_ - 1) % chips_, coming);
    const uint64_t slot = slot_bytes();
    const Slice scratch{Buffer::kScratch, seat.channel * 7 * slot};
    const bool scatter = request_.operation == CCOM_REDUCE_SCATTER;
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t within = i * slot / 2;
      const Slice own = layout_.input(seat.rank, piece[i].offset);
      if (!seat.primary) {
        script.send(seat.other, own, piece[i].bytes);
        if (last && scatter && piece[i].owner == seat.rank) {
          script.receive(seat.other, layout_.output(seat.rank, share_offset(seat.channel)),
                         piece[i].bytes);
        }
        continue;
      }
      const Slice gathered = scratch + round % 2 * 2 * slot + 2 * within;
      const Slice sums = scratch + 4 * slot + round % 2 * slot + within;
      Script::Reduction sum;
      sum.source = gathered;
      sum.stride = piece[i].bytes;
      sum.count = round == 0 ? 0 : 1;
      script.receive(seat.other, gathered + sum.count * piece[i].bytes, piece[i].bytes);
      sum.has_own = true;
      sum.own = own;
      sum.own_index = sum.count + (seat.other < seat.rank ? 1 : 0);
      ++sum.count;
      sum.destination = scatter ? sums : layout_.output(seat.rank, piece[i].offset);
      if (last && scatter && piece[i].owner == seat.rank) {
        sum.destination = layout_.output(seat.rank, share_offset(seat.channel));
      }
      sum.bytes = piece[i].bytes;
      sum.complete = last;
      sum.vector_offset = piece[i].offset;
      script.reduce(sum);
      if (!last) {
        script.send(at(seat.channel, seat.chip + 1, true), sum.destination, piece[i].bytes);
        // Receives the operands of the next round now, so that a window of one is enough.
        script.receive(at(seat.channel, seat.chip + chips_ - 1, true),
                       scratch + (round + 1) % 2 * 2 * slot + 2 * within, coming[i].bytes);
      } else if (scatter && piece[i].owner != seat.rank) {
        script.send(seat.other, sum.destination, piece[i].bytes);
      }
    }
  }

  // All-gather: the primary gets the secondary's block.
  void own_blocks(const Seat& seat, Script& script) const {
    Piece piece[2];
    pieces(seat.channel, seat.chip, piece);
    for (const Piece& block : piece) {
      const Slice output = layout_.output(seat.rank, block.offset);
      if (block.owner == seat.rank) {
        const Slice own = layout_.input(seat.rank, share_offset(seat.channel));
        if (!seat.primary) script.send(seat.other, own, block.bytes);
        script.copy(own, output, block.bytes);
      } else if (seat.primary) {
        script.receive(seat.other, output, block.bytes);
      }
    }
  }

  // Round `round` of the results: the primary has the block of the chip `round` places before its
  // own.
  void pass(const Seat& seat, uint32_t round, Script& script) const {
    const uint32_t chip = (seat.chip + chips_ - round % chips_) % chips_;
    Piece piece[2], coming[2];
    const uint32_t count = pieces(seat.channel, chip, piece);
    pieces(seat.channel, (chip + chips_ - 1) % chips_, coming);
    for (uint32_t i = 0; i < count; ++i) {
      const Slice output = layout_.output(seat.rank, piece[i].offset);
      const bool had = request_.operation == CCOM_ALL_GATHER && piece[i].owner != seat.other;
      if (!seat.primary) {
        if (round != 0 || !(had && piece[i].owner == seat.rank)) {
          script.receive(seat.other, output, piece[i].bytes);
        }
        continue;
      }
      if (round + 1 != chips_) {
        script.send(at(seat.channel, seat.chip + 1, true), output, piece[i].bytes);
      }
      // The secondary has its own block already.
      if (request_.operation == CCOM_ALL_REDUCE || piece[i].owner != seat.other) {
        script.send(seat.other, output, piece[i].bytes);
      }
      // Messages alternate in both directions, so a window of one is enough.
      if (round + 1 != chips_) {
        script.receive(at(seat.channel, seat.chip + chips_ - 1, true),
                       layout_.output(seat.rank, coming[i].offset), coming[i].bytes);
      }
    }
  }

  uint32_t channels_;
  uint32_t chips_;
  std::vector<std::vector<Rank>> orders_;
  std::vector<std::vector<uint32_t>> positions_;
  bool empty_ = false;
};

}  // namespace

std::shared_ptr<const Schedule> make_kangaring(const Request& request, const Group& group,
                                               const Places& places, uint32_t channels) {
  return std::make_shared<KangaRing>(request, group, places, channels);
}

}  // namespace neuron::ccom
