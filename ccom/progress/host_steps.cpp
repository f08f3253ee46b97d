// SPDX-License-Identifier: Apache-2.0
// The steps of a HostTask: a channel at a time, as far as it goes.
#include <algorithm>
#include <cstring>

#include "ccom/progress/host_task.h"
#include "ccom/progress/network_report.h"
#include "ccom/reduction/reduction.h"

namespace neuron::ccom {

const std::byte* HostTask::own(const Slice& slice) const {
  switch (slice.buffer) {
    case Buffer::kInput:
      return input_ + slice.offset;
    case Buffer::kOutput:
      return output_ + slice.offset;
    default:
      return scratch_ + slice.offset;
  }
}

std::byte* HostTask::own_writable(const Slice& slice) const {
  // In place, the output may lie in the input and has the input's name.
  return const_cast<std::byte*>(own(slice));
}

// Whether the action has what it waits for.
bool HostTask::ready(const Action& action) {
  const uint64_t wanted = channel_word(number_, action.position);
  switch (action.kind) {
    case ActionKind::kWaitOwn:
      return cursors_[action.channel].passed >= action.position;
    case ActionKind::kWaitPeer:
      if (!peers_[action.peer].known && meet(action.peer) != 1) return false;
      // Pairs with the release of run_channel() on the peer.
      return lane_.streams[action.peer]->channels[action.channel].value.load(
                 std::memory_order_acquire) >= wanted;
    case ActionKind::kReduceVectors:
      for (Rank rank = 0; rank < peers_.size(); ++rank) {
        if (rank != lane_.context->rank && !peers_[rank].known && meet(rank) != 1) return false;
      }
      return true;
    default:
      return true;
  }
}

void HostTask::execute(const Action& action) {
  const Schedule& schedule = *program_->plan->schedule;
  const auto ranks = static_cast<uint32_t>(peers_.size());
  switch (action.kind) {
    case ActionKind::kWaitPeer:
    case ActionKind::kWaitOwn:
      return;
    case ActionKind::kCopyFromPeer: {
      const Peer& peer = peers_[action.peer];
      const std::byte* from = action.source.buffer == Buffer::kInput    ? peer.input
                              : action.source.buffer == Buffer::kOutput ? peer.output
                                                                        : peer.scratch;
      if (from == nullptr) {
        fail_with(fail(CCOM_MISMATCH,
                       "rank {} gave no buffer that {} reads {} bytes of from it: its input or "
                       "output is null",
                       action.peer, details(signature_), action.bytes));
        return;
      }
      if (!touch()) return;
      copy_bytes(own_writable(action.destination), from + action.source.offset, action.bytes,
                 streaming(action.bytes));
      untouch();
      break;
    }
    case ActionKind::kCopy:
      if (action.bytes != 0) {
        std::memmove(own_writable(action.destination), own(action.source), action.bytes);
      }
      break;
    case ActionKind::kDuplicate:
      if (action.bytes != 0) {
        std::memmove(own_writable(action.second), own(action.source), action.bytes);
        std::memmove(own_writable(action.destination), own(action.source), action.bytes);
      }
      break;
    case ActionKind::kReduce: {
      operands_of_reduce_.clear();
      for (uint32_t k = 0; k < action.count; ++k) {
        operands_of_reduce_.push_back(own(action.source) + k * action.stride);
      }
      if (action.has_own) {
        operands_of_reduce_.insert(
            operands_of_reduce_.begin() + std::min(action.own_index, action.count),
            own(action.second));
      }
      std::byte* result = own_writable(action.destination);
      reduce_to_many(schedule.type, schedule.reduction, &result, 1, operands_of_reduce_.data(),
                     static_cast<uint32_t>(operands_of_reduce_.size()),
                     action.bytes / program_->element, false, action.complete ? ranks : 0);
      operands_of_reduce_.resize(std::max<size_t>(operands_of_reduce_.size(), ranks));
      break;
    }
    case ActionKind::kReduceVectors: {
      for (Rank rank = 0; rank < ranks; ++rank) {
        const std::byte* vector = rank == lane_.context->rank ? vector_ : peers_[rank].vector;
        operands_of_reduce_[rank] = vector + action.vector_offset;
      }
      std::byte* result = own_writable(action.destination);
      if (!touch()) return;
      reduce_to_many(schedule.type, schedule.reduction, &result, 1, operands_of_reduce_.data(),
                     ranks, action.bytes / program_->element, false, ranks);
      untouch();
      break;
    }
  }
  bytes_done_ += action.bytes;
}

// Runs the channel until it ends or waits. False: the task has failed.
bool HostTask::run_channel(uint32_t channel, bool& ended) {
  Cursor& cursor = cursors_[channel];
  const auto& actions = program_->channels[channel];
  auto& word = lane_.own->channels[channel].value;
  const auto publish = [&](uint32_t position) {
    if (position == cursor.published) return;
    cursor.published = position;
    // Publishes that the writes of the steps up to here are visible, and that the bytes they read
    // are free. Pairs with the acquires of ready() and left() on other ranks.
    word.store(channel_word(number_, position), std::memory_order_release);
    lane_.wake();
    moved_ = true;
  };
  while (cursor.next < actions.size()) {
    const Action& action = actions[cursor.next];
    cursor.passed = action.before;
    publish(action.counted);
    if (!ready(action)) return failure_.sentence.empty();
    execute(action);
    if (!failure_.sentence.empty()) return false;
    ++cursor.next;
    moved_ = true;
  }
  cursor.passed = program_->steps[channel];
  publish(program_->counted[channel]);
  cursor.ended = ended = true;
  return true;
}

Outcome HostTask::steps() {
  bool all = true;
  for (uint32_t channel = 0; channel < cursors_.size(); ++channel) {
    bool ended = cursors_[channel].ended;
    if (!ended && !run_channel(channel, ended)) return Outcome::kFailed;
    all = all && ended;
  }
  return all ? Outcome::kDone : Outcome::kNotYet;
}

uint32_t HostTask::steps_done() const {
  if (program_ == nullptr || program_->direct) return met_ + copied_;
  uint32_t done = 0;
  for (const Cursor& cursor : cursors_) done += cursor.passed;
  return done;
}

}  // namespace neuron::ccom
