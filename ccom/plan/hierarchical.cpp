// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccom/plan/algorithms.h"
#include "ccom/schedule/partition.h"

namespace neuron::ccom {
namespace {

// For even nodes: direct exchanges within the node, then between the ranks of a column, then within
// the node again. With several segments, each stage has a channel of its own, and all stages work
// at the same time.
class Hierarchical final : public PlannedRecipe {
 public:
  Hierarchical(const Request& request, const Places& places, uint64_t segments)
      : PlannedRecipe(request, places.ranks()),
        places_(places),
        columns_(static_cast<uint32_t>(places.nodes[0].size())),
        rows_(static_cast<uint32_t>(places.nodes.size())),
        column_of_(places.ranks()) {
    for (const auto& node : places_.nodes) {
      for (uint32_t i = 0; i < columns_; ++i) column_of_[node[i]] = i;
    }
    const bool all = request_.operation == CCOM_ALL_REDUCE;
    // No part is empty, so every segment has the same number of steps.
    const uint64_t parts = all ? ranks_ : 1;
    segments_ = std::clamp<uint64_t>(segments, 1, std::max<uint64_t>(1, request_.count / parts));
    if (request_.operation != CCOM_ALL_GATHER) stages_[stage_count_++] = Stage::kInnerReduce;
    stages_[stage_count_++] = all                                     ? Stage::kOuterAll
                              : request_.operation == CCOM_ALL_GATHER ? Stage::kOuterGather
                                                                      : Stage::kOuterReduce;
    if (request_.operation != CCOM_REDUCE_SCATTER) stages_[stage_count_++] = Stage::kInnerGather;
    const Partition cut(request_.count, segments_);
    const uint64_t width = layout_.width();
    if (all) {
      const Partition columns(cut.largest(), columns_);
      inner_slot_ = columns.largest() * width;
      outer_slot_ = Partition(columns.largest(), rows_).largest() * width;
    } else if (request_.operation == CCOM_REDUCE_SCATTER) {
      inner_slot_ = outer_slot_ = cut.largest() * width;
      sums_ = rows_ * outer_slot_;
    }
    outer_place_ = 2 * uint64_t{columns_} * inner_slot_;
    sums_place_ = outer_place_ + 2 * uint64_t{rows_} * outer_slot_;
    if (places_.node_major) period_ = columns_;
  }

  uint32_t channels() const override { return segments_ > 1 ? stage_count_ : 1; }
  uint64_t scratch_bytes(Rank) const override { return sums_place_ + segments_ * sums_; }

  bool emit(Rank rank, uint32_t channel, uint64_t index, Script& script) const override {
    if (request_.count == 0) return false;
    if (segments_ == 1) {
      if (index >= stage_count_) return false;
      run(rank, stages_[index], 0, script);
      return true;
    }
    if (index >= segments_) return false;
    if (channel != 0) {
      Script before;
      run(rank, stages_[channel - 1], 0, before);
      script.wait(channel - 1, (index + 1) * (before.steps().size() + (channel > 1 ? 1 : 0)));
    }
    run(rank, stages_[channel], index, script);
    return true;
  }

 private:
  enum class Stage : uint8_t {
    kInnerReduce,
    kOuterAll,
    kOuterReduce,
    kOuterGather,
    kInnerGather,
  };
  struct Range {
    uint64_t offset = 0;  // bytes
    uint64_t bytes = 0;
  };

  void run(Rank rank, Stage stage, uint64_t segment, Script& script) const {
    switch (stage) {
      case Stage::kInnerReduce:
        return inner_reduce(rank, segment, script);
      case Stage::kOuterAll:
        return outer_all(rank, segment, script);
      case Stage::kOuterReduce:
        return outer_reduce(rank, segment, script);
      case Stage::kOuterGather:
        return outer_gather(rank, segment, script);
      case Stage::kInnerGather:
        return inner_gather(rank, segment, script);
    }
  }

  // One message to and from every other member, a few at a time.
  template <class Send, class Receive>
  static void exchange(uint32_t members, uint32_t me, Send send, Receive receive) {
    for (uint32_t begin = 1; begin < members; begin += kPeersAtOnce) {
      const uint32_t end = std::min(begin + kPeersAtOnce, members);
      for (uint32_t i = begin; i < end; ++i) send((me + i) % members);
      for (uint32_t i = begin; i < end; ++i) receive((me + members - i) % members);
    }
  }

  // All-reduce: the part of a segment that belongs to a column; row_part divides it among the rows.
  Range column_part(uint64_t segment, uint32_t column) const {
    const Partition cut(request_.count, segments_);
    const Partition columns(cut.size(segment), columns_);
    const uint64_t width = layout_.width();
    return {(cut.offset(segment) + columns.offset(column)) * width, columns.size(column) * width};
  }
  Range row_part(uint64_t segment, uint32_t column, uint32_t row) const {
    const Range part = column_part(segment, column);
    const uint64_t width = layout_.width();
    const Partition rows(part.bytes / width, rows_);
    return {part.offset + rows.offset(row) * width, rows.size(row) * width};
  }
  // The part of a rank's block that belongs to a segment.
  Range block_part(uint64_t segment, Rank rank) const {
    const Partition cut(request_.count, segments_);
    const uint64_t width = layout_.width();
    return {layout_.offset(rank) + cut.offset(segment) * width, cut.size(segment) * width};
  }

  Slice slots(uint64_t place, uint64_t turn, uint32_t members, uint64_t slot) const {
    return {Buffer::kScratch, place + turn % 2 * members * slot};
  }

  static void sum(const Slice& slots, uint32_t members, uint32_t me, const Slice& own,
                  const Slice& destination, uint64_t bytes, uint64_t vector_offset, bool complete,
                  Script& script) {
    Script::Reduction sum;
    sum.source = slots;
    sum.count = members - 1;
    sum.stride = bytes;
    sum.has_own = true;
    sum.own = own;
    sum.own_index = me;
    sum.destination = destination;
    sum.bytes = bytes;
    sum.complete = complete;
    sum.vector_offset = vector_offset;
    script.reduce(sum);
  }

  void inner_reduce(Rank rank, uint64_t segment, Script& script) const {
    const uint32_t x = places_.node_of[rank], y = column_of_[rank];
    const auto& node = places_.nodes[x];
    const bool all = request_.operation == CCOM_ALL_REDUCE;
    for (uint32_t row = 0; row < (all ? 1 : rows_); ++row) {
      const auto part = [&](uint32_t column) {
        return all ? column_part(segment, column) : block_part(segment, places_.nodes[row][column]);
      };
      const Range mine = part(y);
      const Slice arrived = slots(0, all ? segment : row, columns_, inner_slot_);
      exchange(
          columns_, y,
          [&](uint32_t column) {
            const Range range = part(column);
            script.send(node[column], layout_.input(rank, range.offset), range.bytes);
          },
          [&](uint32_t column) {
            script.receive(node[column], arrived + (column < y ? column : column - 1) * mine.bytes,
                           mine.bytes);
          });
      const Slice to = all ? layout_.output(rank, mine.offset) : sums(segment, row);
      sum(arrived, columns_, y, layout_.input(rank, mine.offset), to, mine.bytes, mine.offset,
          false, script);
    }
  }

  Slice sums(uint64_t segment, uint32_t row) const {
    return {Buffer::kScratch, sums_place_ + segment * sums_ + row * outer_slot_};
  }

  void outer_all(Rank rank, uint64_t segment, Script& script) const {
    const uint32_t x = places_.node_of[rank], y = column_of_[rank];
    const Range mine = row_part(segment, y, x);
    const Slice arrived = slots(outer_place_, segment, rows_, outer_slot_);
    const auto peer = [&](uint32_t row) { return places_.nodes[row][y]; };
    exchange(
        rows_, x,
        [&](uint32_t row) {
          const Range range = row_part(segment, y, row);
          script.send(peer(row), layout_.output(rank, range.offset), range.bytes);
        },
        [&](uint32_t row) {
          script.receive(peer(row), arrived + (row < x ? row : row - 1) * mine.bytes, mine.bytes);
        });
    const Slice own = layout_.output(rank, mine.offset);
    sum(arrived, rows_, x, own, own, mine.bytes, mine.offset, true, script);
    exchange(
        rows_, x, [&](uint32_t row) { script.send(peer(row), own, mine.bytes); },
        [&](uint32_t row) {
          const Range range = row_part(segment, y, row);
          script.receive(peer(row), layout_.output(rank, range.offset), range.bytes);
        });
  }

  void outer_reduce(Rank rank, uint64_t segment, Script& script) const {
    const uint32_t x = places_.node_of[rank], y = column_of_[rank];
    const Range mine = block_part(segment, rank);
    const Slice arrived = slots(outer_place_, segment, rows_, outer_slot_);
    exchange(
        rows_, x,
        [&](uint32_t row) { script.send(places_.nodes[row][y], sums(segment, row), mine.bytes); },
        [&](uint32_t row) {
          script.receive(places_.nodes[row][y], arrived + (row < x ? row : row - 1) * mine.bytes,
                         mine.bytes);
        });
    sum(arrived, rows_, x, sums(segment, x),
        layout_.output(rank, mine.offset - layout_.offset(rank)), mine.bytes, mine.offset, true,
        script);
  }

  void outer_gather(Rank rank, uint64_t segment, Script& script) const {
    const uint32_t x = places_.node_of[rank], y = column_of_[rank];
    const Range mine = block_part(segment, rank);
    const Slice own = layout_.input(rank, mine.offset - layout_.offset(rank));
    exchange(
        rows_, x, [&](uint32_t row) { script.send(places_.nodes[row][y], own, mine.bytes); },
        [&](uint32_t row) {
          const Range range = block_part(segment, places_.nodes[row][y]);
          script.receive(places_.nodes[row][y], layout_.output(rank, range.offset), range.bytes);
        });
    script.copy(own, layout_.output(rank, mine.offset), mine.bytes);
  }

  void inner_gather(Rank rank, uint64_t segment, Script& script) const {
    const uint32_t y = column_of_[rank];
    const auto& node = places_.nodes[places_.node_of[rank]];
    const bool all = request_.operation == CCOM_ALL_REDUCE;
    for (uint32_t row = 0; row < (all ? 1 : rows_); ++row) {
      const auto part = [&](uint32_t column) {
        return all ? column_part(segment, column) : block_part(segment, places_.nodes[row][column]);
      };
      const Range mine = part(y);
      exchange(
          columns_, y,
          [&](uint32_t column) {
            script.send(node[column], layout_.output(rank, mine.offset), mine.bytes);
          },
          [&](uint32_t column) {
            const Range range = part(column);
            script.receive(node[column], layout_.output(rank, range.offset), range.bytes);
          });
    }
  }

  const Places places_;
  uint32_t columns_;
  uint32_t rows_;
  std::vector<uint32_t> column_of_;
  uint64_t segments_ = 1;
  Stage stages_[3] = {};
  uint32_t stage_count_ = 0;
  uint64_t inner_slot_ = 0, outer_slot_ = 0, sums_ = 0;
  uint64_t outer_place_ = 0, sums_place_ = 0;
};

}  // namespace

std::shared_ptr<const Schedule> make_hierarchical(const Request& request, const Places& places,
                                                  uint64_t segments) {
  return std::make_shared<Hierarchical>(request, places, segments);
}

}  // namespace neuron::ccom
