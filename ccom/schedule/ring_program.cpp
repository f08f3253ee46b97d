// SPDX-License-Identifier: Apache-2.0
#include "ccom/schedule/ring_program.h"

#include <type_traits>

namespace neuron::ccom {
namespace {

Slice at(const Slice& base, uint64_t offset) { return {base.buffer, base.offset + offset}; }

class RingProgram final : public Program {
 public:
  RingProgram(const RingSource& source, Rank rank, uint32_t channel)
      : source_(source), rank_(rank), channel_(channel) {
    enter();
  }

  bool next(Step& step) override { return advance(step); }
  bool next_work(StepWork& work) override { return advance(work); }

 private:
  // Slices take as long to find as all else of a step, so they are left out of work.
  template <class Out>
  static constexpr bool kSlices = std::is_same_v<Out, Step>;

  template <class Out>
  bool advance(Out& out) {
    while (!ended_) {
      if (phase_.kind == RingPhase::kWait) {
        wait(out);
        enter();
        return true;
      }
      if (phase_.members == 1) {
        if (piece_ < phase_.blocks.pieces && alone(out)) return true;
      } else if (round_ + 1 < phase_.members) {
        if (phase_.kind == RingPhase::kReduceScatter) {
          reduce_scatter(out);
        } else {
          all_gather(out);
        }
        return true;
      }
      enter();
    }
    return false;
  }

  void wait(Step& step) const {
    step.kind = StepKind::kWait;
    step.bytes = 0;
    step.channel = phase_.channel;
    step.position = phase_.steps;
  }
  void wait(StepWork& work) const {
    work.kind = StepKind::kWait;
    work.bytes = phase_.steps;
    work.peer = phase_.channel;
  }

  void enter() {
    round_ = piece_ = part_ = 0;
    slot_ = 0;
    ended_ = !source_.phase(rank_, channel_, index_++, phase_);
    block_ = phase_.position;
    if (!ended_ && phase_.kind == RingPhase::kReduceScatter) block_ = before(block_);
  }

  uint32_t before(uint32_t block) const { return block == 0 ? phase_.members - 1 : block - 1; }

  uint64_t final_offset(uint32_t block, const Span& span, uint32_t piece) const {
    return phase_.compact_final ? phase_.blocks.compact(block, piece) : span.offset;
  }

  uint64_t place(uint32_t block, const Span& span, uint32_t piece) const {
    if (phase_.packed == 0) return span.offset;
    return block * phase_.packed + phase_.blocks.compact(block, piece);
  }
  uint64_t place(uint32_t block, const Span& span) const { return place(block, span, piece_); }

  Slice slot(uint32_t number, uint32_t piece) const {
    return at(phase_.scratch,
              (uint64_t{number} * phase_.blocks.pieces + piece) * phase_.slot_bytes);
  }

  template <class Out>
  void message(Out& step, StepKind kind, const Span& span) const {
    step.kind = kind;
    step.bytes = span.bytes;
    step.peer = kind == StepKind::kSend ? phase_.next : phase_.previous;
  }

  void end_piece() {
    part_ = 0;
    if (++piece_ == phase_.blocks.pieces) {
      piece_ = 0;
      ++round_;
      block_ = before(block_);
      if (++slot_ >= phase_.slots) slot_ = 0;
    }
  }

  // A ring of one member: its contribution is the result, and is copied if the result lies
  // elsewhere.
  bool alone(Step& step) {
    const bool gather = phase_.kind == RingPhase::kAllGather;
    while (piece_ < phase_.blocks.pieces) {
      const Span span = phase_.blocks.span(0, piece_);
      step.kind = StepKind::kCopy;
      step.bytes = span.bytes;
      if (gather) {
        step.source = at(phase_.own, phase_.blocks.compact(0, piece_));
        step.destination = at(phase_.target, span.offset);
      } else {
        step.source = at(phase_.own, place(0, span));
        step.destination = at(phase_.final, final_offset(0, span, piece_));
      }
      ++piece_;
      if (span.bytes != 0 && !(step.source == step.destination) && (!gather || phase_.copy_own)) {
        return true;
      }
    }
    return false;
  }

  bool alone(StepWork& work) {
    Step step;
    if (!alone(step)) return false;
    work = StepWork(step);
    return true;
  }

  // With one piece: send, receive, reduce. With several: send, reduce the piece that arrived
  // before, receive; so a piece is reduced while the next ones travel.
  template <class Out>
  void reduce_scatter(Out& step) {
    const bool lagging = phase_.blocks.pieces > 1;
    if (part_ == 0) {
      const Span span = phase_.blocks.span(block_, piece_);
      message(step, StepKind::kSend, span);
      if constexpr (kSlices<Out>) step.source = reduced(span);
      part_ = lagging && (round_ != 0 || piece_ != 0) ? 1 : 2;
      return;
    }
    if (part_ == 1) {
      reduce(step, last_);
      part_ = 2;
      return;
    }
    if (part_ == 2) {
      last_ = {round_, piece_, before(block_), slot_};
      const Span span = phase_.blocks.span(last_.block, piece_);
      message(step, StepKind::kReceive, span);
      if constexpr (kSlices<Out>) step.destination = landing(last_, span);
      if (!lagging || (round_ + 2 == phase_.members && piece_ + 1 == phase_.blocks.pieces)) {
        part_ = 3;
      } else {
        end_piece();
      }
      return;
    }
    reduce(step, last_);
    end_piece();
  }

  // What a reduce-scatter sends: the own contribution, then what it has reduced.
  Slice reduced(const Span& span) const {
    if (round_ == 0) return at(phase_.own, place(block_, span));
    if (phase_.keep_in_slots) return slot(slot_ == 0 ? phase_.slots - 1 : slot_ - 1, piece_);
    return at(phase_.target, place(block_, span));
  }

  struct Arrived {
    uint32_t round = 0;
    uint32_t piece = 0;
    uint32_t block = 0;
    uint32_t slot = 0;
  };

  Slice landing(const Arrived& arrived, const Span& span) const {
    if (phase_.slots != 0) return slot(arrived.slot, arrived.piece);
    return at(phase_.target, place(arrived.block, span, arrived.piece));
  }

  void reduce(Step& step, const Arrived& arrived) const {
    const bool last = arrived.round + 2 == phase_.members;
    const Span span = phase_.blocks.span(arrived.block, arrived.piece);
    const uint64_t place = this->place(arrived.block, span, arrived.piece);
    const Slice from = landing(arrived, span);
    step.kind = StepKind::kReduce;
    step.has_own = true;
    step.complete = last && phase_.complete;
    step.count = 1;
    step.own_index = phase_.own_first ? 0 : 1;
    step.bytes = span.bytes;
    step.source = from;
    step.stride = span.bytes;
    step.second = at(phase_.own, place);
    step.vector_offset = span.offset;
    if (last) {
      step.destination = at(phase_.final, final_offset(arrived.block, span, arrived.piece));
    } else {
      step.destination = phase_.keep_in_slots ? from : at(phase_.target, place);
    }
  }

  void reduce(StepWork& work, const Arrived& arrived) const {
    work.kind = StepKind::kReduce;
    work.bytes = phase_.blocks.span(arrived.block, arrived.piece).bytes;
    work.peer = 2;
  }

  template <class Out>
  void all_gather(Out& step) {
    if (part_ == 0) {
      const Span span = phase_.blocks.span(block_, piece_);
      message(step, StepKind::kSend, span);
      const bool own = round_ == 0 && phase_.copy_own;
      if constexpr (kSlices<Out>) {
        step.source = own ? at(phase_.own, phase_.blocks.compact(block_, piece_))
                          : at(phase_.target, span.offset);
      }
      part_ = own ? 1 : 2;
      return;
    }
    if (part_ == 1) {  // after the send, so that it does not delay it
      const Span span = phase_.blocks.span(block_, piece_);
      step.kind = StepKind::kCopy;
      step.bytes = span.bytes;
      if constexpr (kSlices<Out>) {
        step.source = at(phase_.own, phase_.blocks.compact(block_, piece_));
        step.destination = at(phase_.target, span.offset);
      } else {
        step.peer = 1;
      }
      part_ = 2;
      return;
    }
    const Span span = phase_.blocks.span(before(block_), piece_);
    message(step, StepKind::kReceive, span);
    if constexpr (kSlices<Out>) step.destination = at(phase_.target, span.offset);
    end_piece();
  }

  const RingSource& source_;
  Rank rank_;
  uint32_t channel_;
  uint32_t index_ = 0;
  uint32_t round_ = 0;
  uint32_t piece_ = 0;
  uint32_t block_ = 0;
  uint32_t slot_ = 0;
  uint8_t part_ = 0;
  bool ended_ = false;
  Arrived last_;
  RingPhase phase_;
};

}  // namespace

Span RingBlocks::cut_span(uint32_t block, uint32_t piece) const {
  if (table == nullptr) {
    Span span{base + cut.offset(block) * width, cut.size(block) * width};
    if (pieces != 1) {
      const Partition split(cut.size(block), pieces);
      span.offset += split.offset(piece) * width;
      span.bytes = split.size(piece) * width;
    }
    return span;
  }
  const Rank rank = table[uint64_t{block} * column + uint64_t{piece} * row];
  const uint64_t elements = sizes != nullptr ? sizes[rank] : uniform;
  uint64_t offset = displacements != nullptr ? displacements[rank] : rank * uniform;
  const Partition split(elements, shares);
  uint64_t size = split.size(share);
  offset += split.offset(share);
  if (row == 0 && pieces != 1) {
    const Partition slices(size, pieces);
    offset += slices.offset(piece);
    size = slices.size(piece);
  }
  return {offset * width, size * width};
}

uint64_t RingBlocks::compact(uint32_t block, uint32_t piece) const {
  if (table == nullptr) {
    return pieces == 1 ? 0 : Partition(cut.size(block), pieces).offset(piece) * width;
  }
  const Rank rank = table[uint64_t{block} * column];
  const Partition split(sizes != nullptr ? sizes[rank] : uniform, shares);
  if (row != 0) return piece * split.size(share) * width;
  return Partition(split.size(share), pieces).offset(piece) * width;
}

uint64_t ring_steps(const RingPhase& phase) {
  if (phase.kind == RingPhase::kWait) return 1;
  if (phase.members == 1) {
    uint64_t copies = 0;
    const bool gather = phase.kind == RingPhase::kAllGather;
    for (uint32_t piece = 0; piece < phase.blocks.pieces; ++piece) {
      const Span span = phase.blocks.span(0, piece);
      const uint64_t compact = phase.blocks.compact(0, piece);
      const bool packed = gather || phase.packed != 0;
      const Slice from = at(phase.own, packed ? compact : span.offset);
      const Slice to = gather ? at(phase.target, span.offset)
                              : at(phase.final, phase.compact_final ? compact : span.offset);
      copies += span.bytes != 0 && !(from == to) && (!gather || phase.copy_own) ? 1 : 0;
    }
    return copies;
  }
  const uint64_t messages = uint64_t{phase.members - 1} * phase.blocks.pieces;
  if (phase.kind == RingPhase::kReduceScatter) return 3 * messages;
  return 2 * messages + (phase.copy_own ? phase.blocks.pieces : 0);
}

std::unique_ptr<Program> RingSource::program(Rank rank, uint32_t channel) const {
  return std::make_unique<RingProgram>(*this, rank, channel);
}

}  // namespace neuron::ccom
