// SPDX-License-Identifier: Apache-2.0
#include "ccom/progress/host_program.h"

#include <algorithm>
#include <unordered_map>

#include "ccom/progress/host_control.h"
#include "ccom/transport/arena_layout.h"

namespace neuron::ccom {
namespace {

// All steps of all ranks, with the messages of each pair.
class Steps {
 public:
  explicit Steps(const Schedule& schedule)
      : ranks_(schedule.ranks()), channels_(schedule.channels()) {
    steps_.resize(uint64_t{ranks_} * channels_);
    counts_.resize(steps_.size());
    for (Rank rank = 0; rank < ranks_; ++rank) {
      for (uint32_t channel = 0; channel < channels_; ++channel) {
        auto& steps = steps_[index(rank, channel)];
        const auto program = schedule.program(rank, channel);
        Step step;
        while (program->next(step)) {
          if (step.kind == StepKind::kSend) {
            messages(sends_, rank, channel, step.peer)
                .push_back(static_cast<uint32_t>(steps.size()));
          } else if (step.kind == StepKind::kReceive) {
            messages(receives_, rank, channel, step.peer)
                .push_back(static_cast<uint32_t>(steps.size()));
          }
          steps.push_back(step);
        }
        auto& counts = counts_[index(rank, channel)];
        counts.reserve(steps.size() + 1);
        counts.push_back(0);
        for (const Step& each : steps) counts.push_back(counts.back() + counted(each));
      }
    }
  }

  const std::vector<Step>& of(Rank rank, uint32_t channel) const {
    return steps_[index(rank, channel)];
  }
  // What other ranks can count of a rank: the messages and complete reductions among its first
  // `steps` steps. Copies are left out, since a rank that works in place has fewer.
  uint32_t count(Rank rank, uint32_t channel, uint64_t steps) const {
    const auto& counts = counts_[index(rank, channel)];
    return counts[std::min<uint64_t>(steps, counts.size() - 1)];
  }
  // The position of the n-th send (receive) of `rank` to (from) `peer`; false: there is none.
  bool send(Rank rank, uint32_t channel, Rank peer, uint32_t n, uint32_t& position) const {
    return find(sends_, rank, channel, peer, n, position);
  }
  bool receive(Rank rank, uint32_t channel, Rank peer, uint32_t n, uint32_t& position) const {
    return find(receives_, rank, channel, peer, n, position);
  }

 private:
  using Messages = std::unordered_map<uint64_t, std::vector<uint32_t>>;

  static uint32_t counted(const Step& step) {
    return step.kind == StepKind::kSend || step.kind == StepKind::kReceive ||
           (step.kind == StepKind::kReduce && step.complete);
  }
  uint64_t index(Rank rank, uint32_t channel) const { return uint64_t{rank} * channels_ + channel; }
  uint64_t key(Rank rank, uint32_t channel, Rank peer) const {
    return index(rank, channel) * ranks_ + peer;
  }
  std::vector<uint32_t>& messages(Messages& all, Rank rank, uint32_t channel, Rank peer) {
    return all[key(rank, channel, peer)];
  }
  bool find(const Messages& all, Rank rank, uint32_t channel, Rank peer, uint32_t n,
            uint32_t& position) const {
    const auto found = all.find(key(rank, channel, peer));
    if (found == all.end() || n >= found->second.size()) return false;
    position = found->second[n];
    return true;
  }

  uint32_t ranks_, channels_;
  std::vector<std::vector<Step>> steps_;
  std::vector<std::vector<uint32_t>> counts_;  // by number of steps
  Messages sends_, receives_;
};

bool overlap(const Slice& a, uint64_t a_bytes, const Slice& b, uint64_t b_bytes) {
  return a.buffer == b.buffer && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

// A send whose receiver may still read.
struct Pending {
  Slice source;
  uint64_t bytes = 0;
  Rank peer = 0;
  uint32_t channel = 0;   // of the send
  uint32_t index = 0;     // of its step
  uint32_t position = 0;  // count at which the receiver's channel has received it
};

class Compiler {
 public:
  Compiler(const Steps& steps, const Plan& plan, Rank rank, bool rank_order, HostProgram& program)
      : steps_(steps), plan_(plan), rank_(rank), rank_order_(rank_order), program_(program) {}

  Result<void> run() {
    const uint32_t channels = plan_.schedule->channels();
    program_.channels.resize(channels);
    for (uint32_t channel = 0; channel < channels; ++channel) {
      collect_sends(channel);
    }
    for (uint32_t channel = 0; channel < channels; ++channel) {
      NEURON_CHECK(compile(channel));
    }
    leave();
    return {};
  }

 private:
  static constexpr uint32_t kNever = ~uint32_t{0};

  void collect_sends(uint32_t channel) {
    std::unordered_map<Rank, uint32_t> sent;
    const auto& steps = steps_.of(rank_, channel);
    for (uint32_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind != StepKind::kSend) continue;
      uint32_t position = 0;
      const uint32_t n = sent[steps[i].peer]++;
      if (!steps_.receive(steps[i].peer, channel, rank_, n, position)) continue;
      pending_.push_back({steps[i].source, steps[i].bytes, steps[i].peer, channel, i,
                          steps_.count(steps[i].peer, channel, position + 1)});
    }
  }

  // Waits for the receivers of bytes that the step at `index` overwrites. Sends of other channels
  // count if a kWait has ordered them before it.
  void hold(std::vector<Action>& actions, uint32_t channel, uint32_t index,
            const Slice& destination, uint64_t bytes, const std::vector<uint32_t>& known) {
    for (Pending& send : pending_) {
      const bool before =
          send.channel == channel ? send.index < index : send.index < known[send.channel];
      if (!before || send.position == kNever ||
          !overlap(send.source, send.bytes, destination, bytes)) {
        continue;
      }
      Action wait;
      wait.kind = ActionKind::kWaitPeer;
      wait.peer = send.peer;
      wait.channel = static_cast<uint16_t>(send.channel);
      wait.position = send.position;
      wait.before = index;
      wait.counted = steps_.count(rank_, channel, index);
      actions.push_back(wait);
    }
  }

  // Whether only reductions read the received bytes. The rank order replaces the arithmetic of
  // those reductions, so the bytes need not be fetched.
  bool only_reduced(const std::vector<Step>& steps, uint32_t index) const {
    const Step& receive = steps[index];
    if (!rank_order_ || receive.destination.buffer == Buffer::kOutput || receive.bytes == 0) {
      return false;
    }
    bool reduced = false;
    for (uint32_t channel = 0; channel < plan_.schedule->channels(); ++channel) {
      const auto& others = steps_.of(rank_, channel);
      const bool same = &others == &steps;
      for (uint32_t i = same ? index + 1 : 0; i < others.size(); ++i) {
        const Step& step = others[i];
        switch (step.kind) {
          case StepKind::kSend:
          case StepKind::kCopy:
          case StepKind::kDuplicate:
            if (overlap(step.source, step.bytes, receive.destination, receive.bytes)) return false;
            break;
          case StepKind::kReduce:
            for (uint32_t k = 0; k < step.count; ++k) {
              const Slice operand{step.source.buffer, step.source.offset + k * step.stride};
              reduced |= overlap(operand, step.bytes, receive.destination, receive.bytes);
            }
            reduced |= step.has_own &&
                       overlap(step.second, step.bytes, receive.destination, receive.bytes);
            break;
          case StepKind::kReceive:
            // The same channel overwrites the bytes, so later steps read something else.
            if (same && reduced && step.destination == receive.destination &&
                step.bytes >= receive.bytes) {
              i = static_cast<uint32_t>(others.size());
            }
            break;
          default:
            break;
        }
      }
    }
    return reduced;
  }

  Result<void> compile(uint32_t channel) {
    const auto& steps = steps_.of(rank_, channel);
    auto& actions = program_.channels[channel];
    std::vector<uint32_t> known(plan_.schedule->channels(), 0);
    std::unordered_map<Rank, uint32_t> received;
    for (uint32_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      Action action;
      action.channel = static_cast<uint16_t>(channel);
      action.before = i;
      action.counted = steps_.count(rank_, channel, i);
      action.bytes = step.bytes;
      action.source = step.source;
      action.destination = step.destination;
      action.second = step.second;
      switch (step.kind) {
        case StepKind::kSend:
          continue;  // is counted when the next action begins
        case StepKind::kReceive: {
          uint32_t position = 0;
          if (!steps_.send(step.peer, channel, rank_, received[step.peer]++, position)) {
            return fail(CCOM_UNSUPPORTED,
                        "the schedule of {} elements lets rank {} receive from rank {} on channel "
                        "{} what that never sends",
                        plan_.request.count, rank_, step.peer, channel);
          }
          const bool fetch = step.bytes != 0 && !only_reduced(steps, i);
          if (fetch) hold(actions, channel, i, step.destination, step.bytes, known);
          action.kind = ActionKind::kWaitPeer;
          action.peer = step.peer;
          action.position = steps_.count(step.peer, channel, position + 1);
          actions.push_back(action);
          if (!fetch) continue;
          action.kind = ActionKind::kCopyFromPeer;
          action.source = steps_.of(step.peer, channel)[position].source;
          break;
        }
        case StepKind::kReduce:
          if (rank_order_ && !step.complete) continue;  // no rank reads a partial sum
          hold(actions, channel, i, step.destination, step.bytes, known);
          action.kind = rank_order_ ? ActionKind::kReduceVectors : ActionKind::kReduce;
          action.complete = step.complete;
          action.has_own = step.has_own;
          action.count = step.count;
          action.own_index = step.own_index;
          action.stride = step.stride;
          action.vector_offset = step.vector_offset;
          break;
        case StepKind::kCopy:
          hold(actions, channel, i, step.destination, step.bytes, known);
          action.kind = ActionKind::kCopy;
          break;
        case StepKind::kDuplicate:
          hold(actions, channel, i, step.destination, step.bytes, known);
          hold(actions, channel, i, step.second, step.bytes, known);
          action.kind = ActionKind::kDuplicate;
          break;
        case StepKind::kWait:
          action.kind = ActionKind::kWaitOwn;
          action.channel = step.channel;
          action.position = static_cast<uint32_t>(step.position);
          known[step.channel] = std::max(known[step.channel], action.position);
          break;
      }
      actions.push_back(action);
    }
    program_.steps.push_back(static_cast<uint32_t>(steps.size()));
    program_.counted.push_back(steps_.count(rank_, channel, steps.size()));
    if (program_.counted.back() >> kPositionBits != 0) {
      return fail(CCOM_UNSUPPORTED,
                  "channel {} of rank {} has {} messages; shared memory counts to {}: split the "
                  "collective",
                  channel, rank_, program_.counted.back(), (1u << kPositionBits) - 1);
    }
    return {};
  }

  // Waits until all receivers have their messages and every rank that reduces vectors has read this
  // one's.
  void leave() {
    std::unordered_map<uint64_t, uint32_t> last;
    const uint32_t channels = plan_.schedule->channels();
    for (const Pending& send : pending_) {
      uint32_t& position = last[uint64_t{send.peer} * channels + send.channel];
      position = std::max(position, send.position);
    }
    for (Rank rank = 0; rank_order_ && rank < plan_.schedule->ranks(); ++rank) {
      for (uint32_t channel = 0; channel < channels; ++channel) {
        const auto& steps = steps_.of(rank, channel);
        for (uint32_t i = static_cast<uint32_t>(steps.size()); i-- > 0;) {
          if (steps[i].kind != StepKind::kReduce || !steps[i].complete) continue;
          program_.reads_vectors = true;
          if (rank != rank_) {
            uint32_t& position = last[uint64_t{rank} * channels + channel];
            position = std::max(position, steps_.count(rank, channel, i + 1));
          }
          break;
        }
      }
    }
    for (const auto& [key, position] : last) {
      program_.leave.push_back(
          {static_cast<Rank>(key / channels), static_cast<uint16_t>(key % channels), position});
    }
  }

  const Steps& steps_;
  const Plan& plan_;
  const Rank rank_;
  const bool rank_order_;
  HostProgram& program_;
  std::vector<Pending> pending_;
};

// In place, a rank's vector must not change until all ranks that reduce from it have read it. This
// holds without a copy if each byte is reduced once and only complete results go to outputs.
bool needs_snapshot(const Schedule& schedule, const Steps& steps, Rank rank) {
  std::vector<std::pair<uint64_t, uint64_t>> reduced;
  for (Rank other = 0; other < schedule.ranks(); ++other) {
    for (uint32_t channel = 0; channel < schedule.channels(); ++channel) {
      for (const Step& step : steps.of(other, channel)) {
        if (other == rank && step.kind == StepKind::kReceive && step.bytes != 0 &&
            step.destination.buffer == Buffer::kInput) {
          return true;
        }
        if (step.kind != StepKind::kReduce) continue;
        if (step.complete) {
          reduced.emplace_back(step.vector_offset, step.vector_offset + step.bytes);
        }
        if (other == rank && step.count != 0 && step.source.buffer == Buffer::kOutput) return true;
      }
    }
  }
  std::sort(reduced.begin(), reduced.end());
  for (size_t i = 1; i < reduced.size(); ++i) {
    if (reduced[i].first < reduced[i - 1].second) return true;
  }
  return false;
}

uint32_t element_bytes(ccom_type_t type) {
  static constexpr uint8_t kSizes[CCOM_TYPE_COUNT] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8};
  return kSizes[type];
}

}  // namespace

Result<std::unique_ptr<HostProgram>> compile_host(const std::shared_ptr<const Plan>& plan,
                                                  Rank rank, bool in_place,
                                                  const HostLimits& limits) {
  const Schedule& schedule = *plan->schedule;
  if (schedule.channels() > kMaxChannels) {
    return fail(CCOM_UNSUPPORTED, "a schedule of {} channels: shared memory has {}; ask for fewer",
                schedule.channels(), kMaxChannels);
  }
  auto program = std::make_unique<HostProgram>();
  program->plan = plan;
  program->element = element_bytes(schedule.type);
  program->input_bytes = schedule.input_bytes(rank);
  program->output_bytes = schedule.output_bytes(rank);
  program->scratch_bytes = schedule.scratch_bytes(rank);
  // Meshes always reduce in the order of ranks.
  program->direct = compile_direct(*plan, rank, in_place, limits, program->mesh);
  if (program->direct) return program;
  const Steps steps(schedule);
  NEURON_CHECK(Compiler(steps, *plan, rank, limits.rank_order, *program).run());
  program->snapshot = limits.rank_order && in_place && program->reads_vectors &&
                      needs_snapshot(schedule, steps, rank);
  return program;
}

}  // namespace neuron::ccom
