// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/host_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

namespace neuron::ccom {
namespace {

// A step in the view of the executor for host memory.
struct Work {
  StepKind kind = StepKind::kCopy;
  Rank peer = 0;         // messages
  uint32_t channel = 0;  // kWait
  uint64_t position = 0;
  double ps = 0;
};

struct Channel {
  std::vector<Work> work;
  size_t next = 0;
  std::vector<uint64_t> done_ps;  // of each step
};

class HostSimulator {
 public:
  HostSimulator(const Plan& plan, const HostModel& model)
      : plan_(plan),
        model_(model),
        ranks_(plan.schedule->ranks()),
        channels_(uint64_t{ranks_} * plan.schedule->channels()),
        rank_ps_(ranks_, model.start_ps),
        processor_ps_(std::max(1u, model.processors), 0) {}

  Result<HostSimulation> run() {
    for (Rank rank = 0; rank < ranks_; ++rank) {
      for (uint32_t channel = 0; channel < plan_.schedule->channels(); ++channel) {
        prepare(rank, channel);
      }
    }
    while (step()) {
    }
    for (size_t i = 0; i < channels_.size(); ++i) {
      const Channel& channel = channels_[i];
      if (channel.next != channel.work.size()) {
        return fail(CCOM_TIMEOUT, "the schedule does not end: rank {} channel {} waits at step {}",
                    i / plan_.schedule->channels(), i % plan_.schedule->channels(), channel.next);
      }
    }
    result_.time_ps = *std::max_element(rank_ps_.begin(), rank_ps_.end());
    for (const uint32_t depth : depth_) result_.messages = std::max(result_.messages, depth);
    return result_;
  }

 private:
  struct Key {
    Rank from, to;
    uint32_t channel;
    auto operator<=>(const Key&) const = default;
  };
  struct Message {
    uint64_t sent_ps;
    uint32_t depth;
  };

  bool mesh() const {
    return plan_.algorithm == CCOM_MESH || plan_.algorithm == CCOM_ONE_STEP_MESH;
  }
  Channel& channel_of(Rank rank, uint32_t channel) {
    return channels_[uint64_t{rank} * plan_.schedule->channels() + channel];
  }

  // The size of a rank's larger buffer, which selects the price.
  uint64_t size_of(Rank rank) const {
    return std::max(plan_.schedule->input_bytes(rank), plan_.schedule->output_bytes(rank));
  }

  void prepare(Rank rank, uint32_t number) {
    Channel& channel = channel_of(rank, number);
    std::vector<Step> steps;
    const auto program = plan_.schedule->program(rank, number);
    for (Step step; program->next(step);) steps.push_back(step);
    const uint64_t size = size_of(rank);
    const double copy = model_.copy.at(size), read = model_.read.at(size);
    const double write = model_.write.at(size);
    bool reduced = false;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      const auto bytes = static_cast<double>(step.bytes);
      Work work{step.kind, step.peer, step.channel, step.position, 0};
      switch (step.kind) {
        case StepKind::kReceive:
          if (!feeds_reduction(steps, i) && !(mesh() && pushed())) work.ps = bytes * copy;
          break;
        case StepKind::kSend:
          if (mesh() && pushed() && reduced) work.ps = bytes * write;
          break;
        case StepKind::kReduce:
          reduced = reduced || step.complete;
          if (step.complete) work.ps = bytes * (ranks_ * read + write);
          break;
        case StepKind::kWait:
          break;
        default:
          work.ps = bytes * copy;
      }
      channel.work.push_back(work);
    }
  }

  // In a mesh, the rank that reduces writes the result to its targets.
  bool pushed() const {
    return plan_.request.operation == CCOM_ALL_REDUCE || plan_.request.operation == CCOM_REDUCE;
  }

  static bool feeds_reduction(const std::vector<Step>& steps, size_t receive) {
    const Slice& place = steps[receive].destination;
    for (size_t i = receive + 1; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (step.kind == StepKind::kReduce && step.source.buffer == place.buffer &&
          place.offset >= step.source.offset &&
          place.offset < step.source.offset + std::max<uint64_t>(1, step.count * step.stride)) {
        return true;
      }
      if (step.kind == StepKind::kReceive && step.destination == place) return false;
    }
    return false;
  }

  // When the next step of a channel can begin; false: not known yet.
  bool begins(Rank rank, uint32_t number, uint64_t& at, uint32_t& depth) {
    Channel& channel = channel_of(rank, number);
    at = rank_ps_[rank];
    depth = depth_of(rank);
    const Work& work = channel.work[channel.next];
    if (work.kind == StepKind::kReceive) {
      auto& queue = flying_[Key{work.peer, rank, number}];
      auto& taken = taken_[Key{work.peer, rank, number}];
      if (taken == queue.size()) return false;
      at = std::max(at, queue[taken].sent_ps + model_.message_ps);
      depth = std::max(depth, queue[taken].depth + 1);
    } else if (work.kind == StepKind::kWait && work.position != 0) {
      const Channel& other = channel_of(rank, work.channel);
      if (other.done_ps.size() < work.position) return false;
      at = std::max(at, other.done_ps[work.position - 1]);
    }
    return true;
  }

  uint32_t& depth_of(Rank rank) {
    depth_.resize(ranks_, 0);
    return depth_[rank];
  }

  // Executes the step that can begin first. False: there is none.
  bool step() {
    uint64_t best = UINT64_MAX;
    uint32_t best_depth = 0, best_channel = 0;
    Rank best_rank = 0;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      for (uint32_t number = 0; number < plan_.schedule->channels(); ++number) {
        const Channel& channel = channel_of(rank, number);
        uint64_t at = 0;
        uint32_t depth = 0;
        if (channel.next == channel.work.size() || !begins(rank, number, at, depth)) continue;
        if (at >= best) continue;
        best = at;
        best_depth = depth;
        best_rank = rank;
        best_channel = number;
      }
    }
    if (best == UINT64_MAX) return false;
    Channel& channel = channel_of(best_rank, best_channel);
    const Work& work = channel.work[channel.next++];
    const auto cost = static_cast<uint64_t>(work.ps + 0.5);
    uint64_t end = best;
    if (cost != 0) {
      auto processor = std::min_element(processor_ps_.begin(), processor_ps_.end());
      end = std::max(best, *processor) + cost;
      *processor = end;
      result_.work_ps += cost;
    }
    rank_ps_[best_rank] = end;
    depth_of(best_rank) = best_depth;
    channel.done_ps.push_back(end);
    if (work.kind == StepKind::kSend) {
      flying_[Key{best_rank, work.peer, best_channel}].push_back({end, best_depth});
    }
    if (work.kind == StepKind::kReceive) ++taken_[Key{work.peer, best_rank, best_channel}];
    return true;
  }

  const Plan& plan_;
  const HostModel& model_;
  const uint32_t ranks_;
  std::vector<Channel> channels_;
  std::vector<uint64_t> rank_ps_;
  std::vector<uint64_t> processor_ps_;
  std::vector<uint32_t> depth_;
  std::map<Key, std::vector<Message>> flying_;
  std::map<Key, size_t> taken_;
  HostSimulation result_;
};

}  // namespace

void HostCurve::set(uint64_t bytes, double ps_per_byte) {
  const auto at =
      std::lower_bound(points_.begin(), points_.end(), std::pair<uint64_t, double>{bytes, -1e300});
  points_.insert(at, {bytes, ps_per_byte});
}

double HostCurve::at(uint64_t bytes) const {
  if (points_.empty()) return 0;
  if (bytes <= points_.front().first) return points_.front().second;
  for (size_t i = 1; i < points_.size(); ++i) {
    if (bytes > points_[i].first) continue;
    const auto& [low, a] = points_[i - 1];
    const auto& [high, b] = points_[i];
    if (low == 0 || low == high) return b;
    const double part = std::log2(static_cast<double>(bytes) / static_cast<double>(low)) /
                        std::log2(static_cast<double>(high) / static_cast<double>(low));
    return a + part * (b - a);
  }
  return points_.back().second;
}

Result<HostSimulation> simulate_host(const Plan& plan, const HostModel& model) {
  if (!plan.schedule) return fail(CCOM_INVALID, "the plan to simulate has no schedule");
  return HostSimulator(plan, model).run();
}

}  // namespace neuron::ccom
