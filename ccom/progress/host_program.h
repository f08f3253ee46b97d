// SPDX-License-Identifier: Apache-2.0
// A plan compiled for one rank of a group that shares memory.
//
// Concepts: every rank knows the programs of all, so a message needs no mailbox. Its receiver waits
// until the sender's channel has passed the send, and reads the source in place. The sender may
// write there again when the receiver's channel has passed the receive. Channels count only
// messages and complete reductions, whose number other ranks know, too. `actions` are a channel's
// steps in this form. With the rank order, incomplete reductions disappear, and complete ones read
// the vectors of all ranks.
//
// A mesh needs no steps at all (`direct`): each rank publishes the places of its buffers, reads or
// writes its part, and publishes that it is done. Small inputs are published by value, with the
// number of the collective. Callers: HostExecutor. Thread-safe: immutable. Fails: CCOM_UNSUPPORTED
// with the number that is too large.
#ifndef CCOM_PROGRESS_HOST_PROGRAM_H
#define CCOM_PROGRESS_HOST_PROGRAM_H

#include <cstdint>
#include <memory>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

enum class ActionKind : uint8_t {
  kWaitPeer,      // until channel `channel` of `peer` has counted to `position`
  kWaitOwn,       // until channel `channel` of this rank has completed `position` steps
  kCopyFromPeer,  // source lies in a buffer of `peer`
  kCopy,
  kDuplicate,
  kReduce,         // operands in buffers of this rank
  kReduceVectors,  // of the vectors of all ranks, at vector_offset
};

struct Action {
  ActionKind kind = ActionKind::kCopy;
  bool complete = false;
  bool has_own = false;
  uint16_t channel = 0;
  Rank peer = 0;
  uint32_t position = 0;  // kWaitOwn: steps; else counted as below
  uint32_t counted = 0;   // of the own channel when this action begins
  uint32_t before = 0;    // steps of the own channel completed when this action begins
  uint32_t count = 0;
  uint32_t own_index = 0;
  uint64_t bytes = 0;
  Slice source, destination, second;
  uint64_t stride = 0;
  uint64_t vector_offset = 0;
};

// Progress of a channel that this rank must see before it may leave.
struct Leave {
  Rank peer = 0;
  uint16_t channel = 0;
  uint32_t position = 0;
};

// `bytes` bytes from `source` in the input of `peer` to `destination` in the own output.
struct DirectCopy {
  Rank peer = 0;
  uint64_t source = 0;
  uint64_t destination = 0;
  uint64_t bytes = 0;
};

struct DirectProgram {
  bool by_value = false;   // inputs go through the entries or slots
  bool in_entry = false;   // and fit beside the number
  bool publishes = true;   // this rank's input is read by others
  bool snapshot = false;   // in place: others would read what this rank has overwritten
  std::vector<Rank> from;  // ranks whose entries are needed, in order
  std::vector<DirectCopy> copies;
  // The part of the vector that this rank reduces, and the place of the result.
  bool reduces = false;
  uint64_t vector_offset = 0;
  uint64_t reduce_bytes = 0;
  uint64_t destination = 0;
  std::vector<Rank> targets;  // ranks whose outputs get the result; may contain this rank
  std::vector<Rank> leave;    // ranks that must be done before this one may leave
  uint64_t input_bytes = 0, output_bytes = 0;
};

struct HostProgram {
  std::shared_ptr<const Plan> plan;
  bool direct = false;
  DirectProgram mesh;
  std::vector<std::vector<Action>> channels;
  std::vector<uint32_t> steps;    // of each channel
  std::vector<uint32_t> counted;  // of those: messages and complete reductions
  std::vector<Leave> leave;
  bool reads_vectors = false;  // true if any rank reads vectors
  bool snapshot = false;
  uint64_t input_bytes = 0, output_bytes = 0, scratch_bytes = 0;
  uint32_t element = 1;
};

struct HostLimits {
  bool rank_order = true;
  uint64_t value_bytes = 4096;  // largest input that goes by value
};

Result<std::unique_ptr<HostProgram>> compile_host(const std::shared_ptr<const Plan>& plan,
                                                  Rank rank, bool in_place,
                                                  const HostLimits& limits);

// The part of compile_host() for meshes; false: this plan has no direct form.
bool compile_direct(const Plan& plan, Rank rank, bool in_place, const HostLimits& limits,
                    DirectProgram& program);

}  // namespace neuron::ccom

#endif
