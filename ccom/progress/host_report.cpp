// SPDX-License-Identifier: Apache-2.0
// Reads from the arenas of all ranks what a HostTask waits for, and which rank called something
// else.
#include "ccom/progress/host_report.h"

#include <algorithm>
#include <cstring>

#include "ccom/progress/network_report.h"

namespace neuron::ccom {
namespace {

constexpr const char* kConnection = "shared memory";

// The signature that a rank posted under a number; none if the slot has another number or is
// changing.
std::optional<Signature> posted(const HostStream& stream, uint64_t number) {
  const HostSignature& board = stream.signatures[number % kSlots];
  // Pairs with the release of HostTask::publish_signature().
  if (board.number.load(std::memory_order_acquire) != number) return std::nullopt;
  const Signature signature = board.signature();
  std::atomic_thread_fence(std::memory_order_acquire);
  if (board.number.load(std::memory_order_relaxed) != number) return std::nullopt;
  return signature;
}

uint64_t last_posted(const HostStream& stream) {
  uint64_t last = 0;
  for (const HostSignature& board : stream.signatures) {
    last = std::max(last, board.number.load(std::memory_order_acquire));
  }
  return last;
}

std::string did_last(const HostStream& stream) {
  const uint64_t last = last_posted(stream);
  if (last == 0) return "it has begun nothing on this stream";
  const auto signature = posted(stream, last);
  if (!signature) return "it is beginning a collective";
  const bool done = stream.done.value.load(std::memory_order_acquire) >= last;
  return ccom::format("it {} {}", done ? "has done its part of" : "is in", details(*signature));
}

}  // namespace

std::vector<Rank> HostTask::awaited() const {
  std::vector<Rank> ranks;
  const Rank self = lane_.context->rank;
  std::vector<bool> added(lane_.streams.size());
  const auto add = [&](Rank rank) {
    if (rank == self || added[rank]) return;
    added[rank] = true;
    ranks.push_back(rank);
  };
  const auto absent = [&](Rank rank) {
    return lane_.streams[rank]->entries[number_ % kSlots].entry.number.load(
               std::memory_order_acquire) != number_;
  };
  const auto done = [&](Rank rank) {
    return lane_.streams[rank]->done.value.load(std::memory_order_acquire);
  };
  const auto passed = [&](Rank rank, uint16_t channel, uint32_t position) {
    return lane_.streams[rank]->channels[channel].value.load(std::memory_order_acquire) >=
           channel_word(number_, position);
  };
  switch (phase_) {
    case Phase::kReserve:
      for (Rank rank = 0; rank < lane_.streams.size(); ++rank) {
        if (done(rank) + kSlots < number_) add(rank);
      }
      break;
    case Phase::kDirect:
      for (const Rank rank : program_->mesh.from) {
        if (rank != self && absent(rank)) add(rank);
      }
      break;
    case Phase::kSteps:
      for (uint32_t channel = 0; channel < cursors_.size(); ++channel) {
        const auto& actions = program_->channels[channel];
        if (cursors_[channel].next >= actions.size()) continue;
        const Action& action = actions[cursors_[channel].next];
        if (action.kind == ActionKind::kWaitPeer) add(action.peer);
        for (Rank rank = 0; action.kind == ActionKind::kReduceVectors && rank < peers_.size();
             ++rank) {
          if (rank != self && absent(rank)) add(rank);
        }
      }
      break;
    case Phase::kLeave:
      if (program_->direct) {
        for (const Rank rank : program_->mesh.leave) {
          if (done(rank) < number_) add(rank);
        }
      } else {
        for (const Leave& leave : program_->leave) {
          if (!passed(leave.peer, leave.channel, leave.position)) add(leave.peer);
        }
      }
      break;
    case Phase::kOver:
      break;
  }
  return ranks;
}

Rank HostTask::waiting_for() const {
  const std::vector<Rank> ranks = awaited();
  return ranks.empty() ? lane_.context->rank : ranks.front();
}

std::optional<Error> HostTask::disagreement() const {
  const Rank self = lane_.context->rank;
  for (Rank rank = 0; rank < lane_.streams.size(); ++rank) {
    if (rank == self) continue;
    const auto theirs = posted(*lane_.streams[rank], number_);
    if (!theirs || *theirs == signature_) continue;
    return mismatch_error(self, signature_, rank, *theirs, lane_.context->bootstrap->members(),
                          kConnection);
  }
  return std::nullopt;
}

std::optional<Error> HostTask::desertion() const {
  const auto& members = lane_.context->bootstrap->members();
  for (const Rank rank : awaited()) {
    const HostStream& stream = *lane_.streams[rank];
    // Pairs with the release at the executor's end: everything that it posted before is visible.
    if (stream.left.value.load(std::memory_order_acquire) == 0) continue;
    if (last_posted(stream) >= number_) continue;
    return left_error(lane_.context->rank, signature_, rank, did_last(stream), members);
  }
  return std::nullopt;
}

Error host_timeout(const HostTask& task, std::chrono::milliseconds silent) {
  const HostLane& lane = task.lane();
  const auto& members = lane.context->bootstrap->members();
  constexpr size_t kNamed = 16;
  std::string missing;
  size_t count = 0;
  for (const Rank rank : task.awaited()) {
    if (count++ == kNamed) {
      missing += "; and others";
      break;
    }
    missing += ccom::format("{}{}: {}", missing.empty() ? "" : "; ", rank_text(rank, members),
                            did_last(*lane.streams[rank]));
  }
  if (missing.empty()) missing = "nobody (this rank did not go on)";
  return fail(CCOM_TIMEOUT,
              "{} of {} made no progress for {} ms after {} steps; it waits over {} for {}",
              details(task.signature()), rank_text(lane.context->rank, members), silent.count(),
              task.steps_done(), kConnection, missing);
}

}  // namespace neuron::ccom
