// SPDX-License-Identifier: Apache-2.0
// One step of a rank's program: what every executor of a collective understands.
//
// Concepts. A schedule gives each rank `channels` programs. Each program is sequential; all
// programs of a rank run at the same time. Channel c of a rank speaks with channel c of other ranks
// only: the n-th send of (rank a, channel c) to b is the n-th receive of (rank b, channel c) from
// a, and has its size.
//
// A send starts a transfer and does not wait for it. Its source must stay as it is until the
// receiver has it: executors hold later writes of the same rank to it back. A receive waits. All
// other steps are local. Credits: a receiver admits up to `window` messages of one peer and channel
// before it has reached their receives, as far as their destinations are free by then
// (schedule/lookahead.h says when). A send without credit waits and holds its channel up.
//
// Slices name one of three buffers of the rank: input, output or scratch. Executors know where
// these are. In place, the bytes that input and output share have one name: the input for
// reduce-scatter and the root of a scatter, the output for all others (request/layout.h). Messages
// of no bytes are messages too. Thread-safe: values.
#ifndef CCOM_SCHEDULE_STEP_H
#define CCOM_SCHEDULE_STEP_H

#include <cstdint>

namespace neuron::ccom {

using Rank = uint32_t;

enum class Buffer : uint8_t { kInput, kOutput, kScratch };

struct Slice {
  Buffer buffer = Buffer::kInput;
  uint64_t offset = 0;  // bytes

  bool operator==(const Slice&) const = default;
};

enum class StepKind : uint8_t {
  kSend,       // `bytes` at source to `peer`
  kReceive,    // `bytes` from `peer` into destination
  kReduce,     // destination = source 0 op source 1 op ... in the order below, one rounding
  kCopy,       // destination = source
  kDuplicate,  // destination = second = source: one read, two writes
  kWait,       // until `channel` of this rank has executed its first `position` steps and the sends
               // among them are done
};

// kReduce has `count` gathered operands of `bytes` each, operand i at source + i * stride, and,
// with `has_own`, one more at `own` that takes place `own_index` among them. They are in the order
// of the ranks (or of the groups of ranks) whose contributions they hold.
struct Step {
  StepKind kind = StepKind::kCopy;
  bool has_own = false;   // kReduce
  bool complete = false;  // kReduce: the result holds the contribution of every rank
  uint16_t channel = 0;   // kWait
  Rank peer = 0;          // kSend, kReceive
  uint32_t count = 0;     // kReduce: gathered operands
  uint32_t own_index = 0;
  uint64_t bytes = 0;
  Slice source;
  Slice destination;
  Slice second;           // kDuplicate: the second destination; kReduce: `own`
  uint64_t stride = 0;    // kReduce
  uint64_t position = 0;  // kWait
  // kReduce: where the reduced elements stand in the vector that is reduced, in bytes. This is
  // their offset in the input of every rank (reduce-scatter: the whole input is the vector), so
  // that an executor that can read all inputs may form a complete result from them in rank order,
  // and skip the arithmetic of steps that are not complete.
  uint64_t vector_offset = 0;
};

}  // namespace neuron::ccom

#endif
