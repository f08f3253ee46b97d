// SPDX-License-Identifier: Apache-2.0
// Ring phases, and the program that walks through a list of phases: the hot path of the simulator.
//
// Concepts: a phase is a reduce-scatter or an all-gather of `members` ranks in a ring, over a
// region that is cut into one block per member. A block travels as `pieces` messages. A ring, a
// two-dimensional ring and each stage of a pipelined one are lists of phases. The program keeps one
// phase at a time. Callers: schedules of plan/. Threads: one per program. Cannot fail.
#ifndef CCOM_SCHEDULE_RING_PROGRAM_H
#define CCOM_SCHEDULE_RING_PROGRAM_H

#include <cstdint>

#include "ccom/schedule/partition.h"
#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

struct Span {
  uint64_t offset = 0;  // bytes
  uint64_t bytes = 0;
};

// Blocks of a phase. Without a table: a region of `elements` cut evenly, then into pieces. With a
// table: block q consists of the blocks of ranks table[q * column], table[q * column + row], ... in
// a buffer with one block per rank. Of each rank's elements, only part `share` of `shares` counts.
struct RingBlocks {
  Partition cut;
  uint32_t pieces = 1;
  uint32_t width = 1;  // bytes of an element
  uint64_t base = 0;   // bytes; without a table
  const Rank* table = nullptr;
  uint32_t column = 0;  // distance in the table between blocks
  uint32_t row = 0;     // between the pieces of one block; 0: pieces cut one rank's share
  uint32_t share = 0;
  uint32_t shares = 1;
  uint64_t uniform = 0;                     // elements of each rank's block
  const uint64_t* sizes = nullptr;          // or these, by rank
  const uint64_t* displacements = nullptr;  // with `sizes`

  Span span(uint32_t block, uint32_t piece) const {
    if (table != nullptr || pieces != 1) return cut_span(block, piece);
    return {base + cut.offset(block) * width, cut.size(block) * width};
  }
  // The offset of the same piece if the pieces of a block lie side by side.
  uint64_t compact(uint32_t block, uint32_t piece) const;

 private:
  Span cut_span(uint32_t block, uint32_t piece) const;
};

struct RingPhase {
  enum Kind : uint8_t { kReduceScatter, kAllGather, kWait };
  Kind kind = kWait;
  // Reduce-scatter: intermediate results stay in the slot they arrived in instead of going to
  // `target`.
  bool keep_in_slots = false;
  bool compact_final =
      false;               // reduce-scatter: pieces of the own block lie side by side at `final`
  bool copy_own = false;   // all-gather: the own block is still at `own`, side by side
  bool complete = false;   // reduce-scatter: the last reduction has all contributions
  bool own_first = false;  // order of the operands
  uint16_t channel = 0;    // kWait
  uint32_t members = 1;
  uint32_t position = 0;
  Rank next = 0;
  Rank previous = 0;
  uint32_t slots = 0;  // 0: messages arrive at `target`, which is not `own`
  RingBlocks blocks;
  Slice own;     // own contribution, at the spans of the blocks (all-gather: side by side)
  Slice target;  // results, at the spans of the blocks
  Slice final;   // reduce-scatter: the own block
  Slice scratch;
  uint64_t slot_bytes = 0;
  // Not 0: blocks lie packed at `own` and `target`, this many bytes apart.
  uint64_t packed = 0;
  uint64_t steps = 0;  // kWait: position
};

class RingSource : public Schedule {
 public:
  // Gets phase number `index` of a rank's channel; false past the end.
  virtual bool phase(Rank rank, uint32_t channel, uint32_t index, RingPhase& phase) const = 0;
  std::unique_ptr<Program> program(Rank rank, uint32_t channel) const final;
};

// The number of steps that a program makes of a phase, for kWait positions.
uint64_t ring_steps(const RingPhase& phase);

}  // namespace neuron::ccom

#endif
