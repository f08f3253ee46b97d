// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/ring_schedule.h"

#include <algorithm>
#include <array>

#include "ccom/request/layout.h"
#include "ccom/schedule/ring_program.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kSlots = 4;      // if a partial result moves on to its own place
constexpr uint32_t kKeptSlots = 8;  // if it stays in the slot until it is sent

// The parts of a lane (one ring, or the three stages of one), in order.
enum class Part : uint8_t { kInnerReduce, kOuterReduce, kOuterGather, kInnerGather };

class RingSchedule final : public RingSource {
 public:
  RingSchedule(const Request& request, const Group& group, const Places& places,
               const RingShape& shape)
      : request_(request),
        layout_(request_, group.ranks()),
        shape_(shape),
        ranks_(group.ranks()),
        columns_(shape.two_d ? static_cast<uint32_t>(places.nodes[0].size()) : ranks_),
        rows_(ranks_ / columns_) {
    type = request.type;
    reduction = request.reduction;
    orders_ = ring_orders(group, places, shape.channels, shape.both);
    for (const auto& order : orders_) {
      auto& position = positions_.emplace_back(ranks_);
      for (uint32_t i = 0; i < ranks_; ++i) position[order[i]] = i;
    }
    choose_parts();
    if (places.even && places.node_major && places.nodes.size() > 1 && even_blocks(request)) {
      period_ = static_cast<uint32_t>(places.nodes[0].size());
    }
    lay_out_scratch();
  }

  uint32_t ranks() const override { return ranks_; }
  uint32_t channels() const override { return shape_.channels * stages_; }
  uint64_t input_bytes(Rank rank) const override { return layout_.input_bytes(rank); }
  uint64_t output_bytes(Rank rank) const override { return layout_.output_bytes(rank); }
  uint64_t scratch_bytes(Rank) const override { return scratch_bytes_; }
  uint32_t period() const override { return period_; }

  bool phase(Rank rank, uint32_t channel, uint32_t index, RingPhase& phase) const override {
    const uint32_t lane = channel / stages_;
    const uint32_t stage = channel % stages_;
    const uint32_t first = stages_ == 1 ? 0 : first_part_[stage];
    const uint32_t count = (stages_ == 1 ? part_count_ : first_part_[stage + 1]) - first;
    const uint32_t waits = stage == 0 ? 0 : 1;
    const uint32_t segment = index / (count + waits);
    const uint32_t within = index % (count + waits);
    if (segment >= shape_.segments || empty_) return false;
    if (within < waits) {
      phase = RingPhase{};
      phase.kind = RingPhase::kWait;
      phase.channel = static_cast<uint16_t>(channel - 1);
      phase.steps = stage_steps(rank, lane, stage - 1, segment + 1);
      return true;
    }
    fill(rank, lane, segment, parts_[first + within - waits], phase);
    return true;
  }

 private:
  bool gathers() const {
    return request_.operation == CCOM_ALL_GATHER || request_.operation == CCOM_ALL_GATHER_V;
  }
  bool scatters() const { return !gathers() && request_.operation != CCOM_ALL_REDUCE; }

  void choose_parts() {
    const auto add = [&](Part part) { parts_[part_count_++] = part; };
    if (!gathers()) add(Part::kInnerReduce);
    if (shape_.two_d && !gathers()) add(Part::kOuterReduce);
    if (shape_.two_d && !scatters()) add(Part::kOuterGather);
    if (!scatters()) add(Part::kInnerGather);
    empty_ = request_.count == 0 && request_.counts.empty();
    if (shape_.segments <= 1) return;
    // Stages: within the node before, between nodes, within the node after.
    first_part_[0] = 0;
    stages_ = 1;
    for (uint32_t i = 1; i < part_count_; ++i) {
      const auto inner = [](Part part) {
        return part == Part::kInnerReduce || part == Part::kInnerGather;
      };
      if (inner(parts_[i]) || inner(parts_[i - 1])) first_part_[stages_++] = i;
    }
    first_part_[stages_] = part_count_;
  }

  Partition region(uint64_t elements) const {
    return {elements, uint64_t{shape_.channels} * shape_.segments};
  }

  uint64_t largest_block() const {
    if (request_.counts.empty()) return request_.count;
    return *std::max_element(request_.counts.begin(), request_.counts.end());
  }

  // Every channel has slots. Reduce-scatter in two dimensions also needs a place for the sums of
  // the node.
  void lay_out_scratch() {
    const uint64_t width = layout_.width();
    const uint64_t share = region(largest_block()).largest();
    if (gathers() || empty_) return;
    if (request_.operation == CCOM_ALL_REDUCE) {
      const uint64_t block = Partition(share, columns_).largest();
      inner_slots_ = request_.in_place ? std::min(columns_ - 1, kSlots) : 0;
      inner_slot_bytes_ = Partition(block, shape_.slices).largest() * width;
      outer_slots_ = std::min(rows_ - 1, kSlots);
      outer_slot_bytes_ =
          Partition(Partition(block, rows_).largest(), shape_.slices).largest() * width;
    } else {
      inner_slots_ = std::min(columns_ - 1, kKeptSlots);
      outer_slots_ = std::min(rows_ - 1, kSlots);
      sums_bytes_ = shape_.two_d ? rows_ * share * width : 0;
      inner_slot_bytes_ =
          (shape_.two_d ? share : Partition(share, shape_.slices).largest()) * width;
      outer_slot_bytes_ = Partition(share, shape_.slices).largest() * width;
    }
    const uint64_t inner_pieces = scatters() && shape_.two_d ? rows_ : shape_.slices;
    inner_bytes_ = inner_slots_ * inner_pieces * inner_slot_bytes_;
    // The sums of one segment may still be in flight while those of the next are formed.
    lane_bytes_ = inner_bytes_ + outer_slots_ * shape_.slices * outer_slot_bytes_ +
                  sums_bytes_ * shape_.segments;
    lane_bytes_ = (lane_bytes_ + 63) / 64 * 64;
    scratch_bytes_ = lane_bytes_ * shape_.channels;
  }

  // Steps of the first `segments` segments.
  uint64_t stage_steps(Rank rank, uint32_t lane, uint32_t stage, uint32_t segments) const {
    uint64_t steps = stage == 0 ? 0 : segments;
    for (uint32_t segment = 0; segment < segments; ++segment) {
      for (uint32_t i = first_part_[stage]; i < first_part_[stage + 1]; ++i) {
        RingPhase phase;
        fill(rank, lane, segment, parts_[i], phase);
        // In segments without bytes, only copies may be left out.
        if (phase.members > 1) {
          steps += segment == 0 ? segments * ring_steps(phase) : 0;
        } else {
          steps += ring_steps(phase);
        }
      }
      if (segment == 0 && rows_ > 1 && columns_ > 1) break;
    }
    return steps;
  }

  void neighbours(const std::vector<Rank>& order, uint32_t first, uint32_t distance,
                  RingPhase& phase) const {
    const uint32_t p = phase.position, k = phase.members;
    const uint32_t after = p + 1 == k ? 0 : p + 1, before = p == 0 ? k - 1 : p - 1;
    phase.next = order[first + after * distance];
    phase.previous = order[first + before * distance];
    phase.own_first = order[first + p * distance] < phase.previous;
  }

  void fill(Rank rank, uint32_t lane, uint32_t segment, Part part, RingPhase& phase) const {
    phase = RingPhase{};
    const auto& order = orders_[lane];
    const uint32_t position = positions_[lane][rank];
    const uint32_t x = position / columns_, y = position % columns_;
    const bool inner = part == Part::kInnerReduce || part == Part::kInnerGather;
    const bool reduce = part == Part::kInnerReduce || part == Part::kOuterReduce;
    phase.kind = reduce ? RingPhase::kReduceScatter : RingPhase::kAllGather;
    phase.members = inner ? columns_ : rows_;
    phase.position = inner ? y : x;
    neighbours(order, inner ? x * columns_ : y, inner ? 1 : columns_, phase);
    phase.complete = part == Part::kOuterReduce || !shape_.two_d || rows_ == 1;
    phase.blocks.width = layout_.width();
    const uint64_t lane_scratch = lane * lane_bytes_;
    phase.scratch = {Buffer::kScratch, lane_scratch + (inner ? 0 : inner_bytes_)};
    phase.slots = !reduce ? 0 : inner ? inner_slots_ : outer_slots_;
    phase.slot_bytes = inner ? inner_slot_bytes_ : outer_slot_bytes_;
    const uint32_t share = lane * shape_.segments + segment;
    if (request_.operation == CCOM_ALL_REDUCE) {
      all_reduce(rank, share, y, inner, part, phase);
    } else {
      by_rank(rank, order, share, lane_scratch, segment, x, y, part, phase);
    }
  }

  void all_reduce(Rank rank, uint32_t share, uint32_t y, bool inner, Part part,
                  RingPhase& phase) const {
    const Partition shares = region(request_.count);
    const Partition columns(shares.size(share), columns_);
    uint64_t base = shares.offset(share);
    phase.blocks.pieces = shape_.slices;
    if (inner) {
      phase.blocks.cut = columns;
    } else {
      base += columns.offset(y);
      phase.blocks.cut = Partition(columns.size(y), rows_);
    }
    phase.blocks.base = base * layout_.width();
    const Slice output = layout_.output(rank, 0);
    phase.own = part == Part::kInnerReduce ? layout_.input(rank, 0) : output;
    phase.target = phase.final = output;
  }

  // All-gather and reduce-scatter: each block belongs to a rank.
  void by_rank(Rank rank, const std::vector<Rank>& order, uint32_t share, uint64_t lane_scratch,
               uint32_t segment, uint32_t x, uint32_t y, Part part, RingPhase& phase) const {
    const uint64_t own_share = region(layout_.elements(rank)).offset(share) * layout_.width();
    RingBlocks& blocks = phase.blocks;
    blocks.share = share;
    blocks.shares = shape_.channels * shape_.segments;
    blocks.uniform = request_.count;
    blocks.sizes = request_.counts.empty() ? nullptr : request_.counts.data();
    blocks.displacements = request_.displacements.empty() ? nullptr : request_.displacements.data();
    blocks.pieces = shape_.slices;
    const Slice sums{Buffer::kScratch,
                     lane_scratch + lane_bytes_of_slots() + segment * sums_bytes_};
    switch (part) {
      case Part::kOuterGather:
        blocks.table = order.data() + y;
        blocks.column = columns_;
        break;
      case Part::kInnerGather:
      case Part::kInnerReduce:
        blocks.table = shape_.two_d ? order.data() : order.data() + x * columns_;
        blocks.column = 1;
        if (shape_.two_d) {
          blocks.row = columns_;
          blocks.pieces = rows_;
        }
        break;
      case Part::kOuterReduce:
        blocks.table = order.data() + y;
        blocks.column = columns_;
        phase.packed = region(request_.count).size(share) * layout_.width();
        break;
    }
    if (phase.kind == RingPhase::kAllGather) {
      phase.target = layout_.output(rank, 0);
      phase.own = layout_.input(rank, own_share);
      phase.copy_own = !request_.in_place && (part == Part::kOuterGather || !shape_.two_d);
      return;
    }
    phase.keep_in_slots = part == Part::kInnerReduce;
    phase.compact_final = true;
    phase.own = part == Part::kInnerReduce ? layout_.input(rank, 0) : sums;
    phase.target = sums;
    phase.final =
        shape_.two_d && part == Part::kInnerReduce ? sums : layout_.output(rank, own_share);
  }

  uint64_t lane_bytes_of_slots() const {
    return inner_bytes_ + outer_slots_ * shape_.slices * outer_slot_bytes_;
  }

  Request request_;
  Layout layout_;
  RingShape shape_;
  uint32_t ranks_;
  uint32_t columns_;  // ranks of the inner ring
  uint32_t rows_;     // of the outer one
  std::vector<std::vector<Rank>> orders_;
  std::vector<std::vector<uint32_t>> positions_;
  std::array<Part, 4> parts_{};
  uint32_t part_count_ = 0;
  uint32_t stages_ = 1;
  std::array<uint32_t, 4> first_part_{};
  bool empty_ = false;
  uint32_t period_ = 0;
  uint32_t inner_slots_ = 0, outer_slots_ = 0;
  uint64_t inner_slot_bytes_ = 0, outer_slot_bytes_ = 0;
  uint64_t inner_bytes_ = 0, sums_bytes_ = 0, lane_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const Schedule> make_ring(const Request& request, const Group& group,
                                          const Places& places, const RingShape& shape) {
  return std::make_shared<RingSchedule>(request, group, places, shape);
}

}  // namespace neuron::ccom
