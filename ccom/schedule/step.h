// SPDX-License-Identifier: Apache-2.0
// One step of a rank's program: the common language of all executors.
//
// Concepts. A schedule gives each rank `channels` programs. Each program is sequential; all
// programs of a rank run at the same time. Channel c of a rank exchanges messages only with channel
// c of other ranks: the n-th send of (rank a, channel c) to b is the n-th receive of (rank b,
// channel c) from a, and has its size.
//
// A send starts a transfer and does not wait for it. Its source must stay unchanged until the
// receiver has it, so executors hold back later writes of the same rank to it. A receive waits. All
// other steps are local. Credits: a receiver admits up to `window` messages of one peer and channel
// before it has reached their receives, if their destinations are free by then (see
// schedule/lookahead.h). A send without credit waits and blocks its channel.
//
// Slices name one of three buffers of the rank: input, output or scratch. Executors know where
// these are. In place, the bytes that input and output share have one name: the input for
// reduce-scatter and the root of a scatter, the output for all others (request/layout.h). Empty
// messages are messages, too. Thread-safe: values.
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
// with `has_own`, one more at `own`, which is number `own_index` among them. They are in the order
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
  // kReduce: the byte offset of the reduced elements in the reduced vector, which is also their
  // offset in the input of every rank (reduce-scatter: the whole input is the vector). So an
  // executor that can read all inputs may form a complete result from them in rank order, and skip
  // the arithmetic of incomplete steps.
  uint64_t vector_offset = 0;
};

// What a step takes, for those who only want to know how long: a step without its slices.
struct StepWork {
  uint64_t bytes = 0;  // kWait: the position
  uint32_t peer = 0;   // kSend, kReceive; kWait: the channel; else the operands that are read
  StepKind kind = StepKind::kCopy;

  StepWork() = default;
  explicit StepWork(const Step& step) : bytes(step.bytes), peer(step.peer), kind(step.kind) {
    if (kind == StepKind::kSend || kind == StepKind::kReceive) return;
    peer = 1;
    if (kind == StepKind::kReduce) peer = step.count + (step.has_own ? 1 : 0);
    if (kind != StepKind::kWait) return;
    bytes = step.position;
    peer = step.channel;
  }
};

}  // namespace neuron::ccom

#endif
