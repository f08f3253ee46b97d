// SPDX-License-Identifier: Apache-2.0
#include "ccom/device/interleaving.h"

#include <algorithm>
#include <map>

namespace neuron::ccom {
namespace {

// The most steps of all ranks together; they take 1 GiB of memory while a collective is compiled.
constexpr uint64_t kMostSteps = 4u << 20;

// One message, identified by its receive.
struct Message {
  uint32_t receive = 0;   // step number at the receiver
  uint32_t grant_at = 0;  // channel position at which the receiver grants
  uint32_t grant_number = 0;
  uint16_t slot = 0;
  bool granted = false;
  bool sent = false;
};

struct Grant {
  uint32_t at = 0;
  Rank peer = 0;
  uint32_t message = 0;
};

struct Channel {
  std::vector<Step> steps;
  std::map<Rank, std::vector<Message>> from;  // in the order of receives
  std::map<Rank, uint32_t> sent, received;    // messages so far
  std::vector<Grant> grants;
  uint32_t position = 0;
  uint32_t next_grant = 0;
};

struct Pair {  // of a receiver with one peer
  uint32_t grants = 0;
  uint32_t first = 0;  // its first semaphore
  std::vector<bool> busy;
};

struct RankState {
  std::vector<Channel> channels;
  std::map<Rank, Pair> pairs;
  std::map<Rank, uint32_t> sends;  // to each peer, all channels
  RankBuffers buffers;
};

bool touches(const Step& step, const AddressRange& range, const RankBuffers& buffers) {
  if (step.kind == StepKind::kWait) return true;
  const Footprint foot = footprint(step, buffers);
  const auto overlaps = [&](const AddressRange& other) { return other.overlaps(range); };
  return std::any_of(foot.reads.begin(), foot.reads.end(), overlaps) ||
         std::any_of(foot.writes.begin(), foot.writes.end(), overlaps);
}

class Run {
 public:
  Run(const Schedule& schedule, std::span<const RankBuffers> buffers, uint32_t window,
      uint32_t arrivals)
      : schedule_(schedule), arrivals_(arrivals), window_(std::max(1u, window)) {
    ranks_.resize(schedule.ranks());
    for (Rank r = 0; r < schedule.ranks(); ++r) ranks_[r].buffers = buffers[r];
    result_.ranks.resize(schedule.ranks());
  }

  Result<Interleaving> run() {
    NEURON_CHECK(load());
    NEURON_CHECK(share_arrivals());
    for (RankState& state : ranks_) {
      for (Channel& channel : state.channels) plan_grants(state, channel);
    }
    for (Rank r = 0; r < ranks_.size(); ++r) {
      for (uint32_t c = 0; c < ranks_[r].channels.size(); ++c) issue_grants(r, c);
    }
    bool more = true;
    // bounded: each turn but the last executes a step.
    while (more) {
      more = false;
      for (Rank r = 0; r < ranks_.size(); ++r) {
        for (uint32_t c = 0; c < ranks_[r].channels.size(); ++c) {
          if (advance(r, c)) more = true;
        }
      }
    }
    NEURON_CHECK(check_end());
    return std::move(result_);
  }

 private:
  Result<void> load() {
    uint64_t total = 0;
    for (Rank r = 0; r < ranks_.size(); ++r) {
      ranks_[r].channels.resize(schedule_.channels());
      for (uint32_t c = 0; c < schedule_.channels(); ++c) {
        Channel& channel = ranks_[r].channels[c];
        const std::unique_ptr<Program> program = schedule_.program(r, c);
        Step step;
        while (program->next(step)) {
          if (++total > kMostSteps) {
            return fail(CCOM_RESOURCE,
                        "the collective has more than {} steps on its {} ranks, which is more than "
                        "is compiled for devices; ask for fewer bytes or another algorithm",
                        kMostSteps, ranks_.size());
          }
          if ((step.kind == StepKind::kSend || step.kind == StepKind::kReceive) &&
              (step.peer >= ranks_.size() || step.peer == r)) {
            return fail(CCOM_INVALID, "step {} of rank {} channel {} names rank {} of {} as peer",
                        channel.steps.size(), r, c, step.peer, ranks_.size());
          }
          if (step.kind == StepKind::kWait && step.channel >= schedule_.channels()) {
            return fail(CCOM_INVALID, "step {} of rank {} channel {} waits for channel {} of {}",
                        channel.steps.size(), r, c, step.channel, schedule_.channels());
          }
          if (step.kind == StepKind::kReceive) {
            channel.from[step.peer].push_back(
                {.receive = static_cast<uint32_t>(channel.steps.size())});
            ranks_[r].pairs.try_emplace(step.peer);
          }
          channel.steps.push_back(step);
        }
      }
    }
    return {};
  }

  // Gives every pair of ranks the same number of semaphores, at least one for each channel.
  Result<void> share_arrivals() {
    size_t peers = 1;
    for (const RankState& state : ranks_) peers = std::max(peers, state.pairs.size());
    const uint32_t channels = std::max(1u, schedule_.channels());
    const auto most = static_cast<uint32_t>(arrivals_ / peers);
    if (most < channels) {
      return fail(CCOM_RESOURCE,
                  "the algorithm lets a rank receive from {} others on {} channels, for which a "
                  "collective core has {} semaphores; ask for another algorithm (ring, tree)",
                  peers, channels, arrivals_);
    }
    window_ = std::min(window_, most / channels);
    for (RankState& state : ranks_) {
      uint32_t first = 0;
      for (auto& [peer, pair] : state.pairs) {
        pair.first = first;
        pair.busy.resize(window_ * channels);
        first += window_ * channels;
      }
    }
    return {};
  }

  // Grants each receive as soon as its destination is free, but at most the window ahead.
  void plan_grants(const RankState& state, Channel& channel) {
    for (auto& [peer, messages] : channel.from) {
      for (uint32_t m = 0; m < messages.size(); ++m) {
        uint32_t lowest = m == 0 ? 0 : messages[m - 1].grant_at;
        if (m >= window_) lowest = std::max(lowest, messages[m - window_].receive + 1);
        const Step& receive = channel.steps[messages[m].receive];
        const AddressRange range{state.buffers.number(receive.destination), receive.bytes};
        uint32_t at = messages[m].receive;
        while (at > lowest && !touches(channel.steps[at - 1], range, state.buffers)) --at;
        messages[m].grant_at = at;
        channel.grants.push_back({at, peer, m});
      }
    }
    std::stable_sort(channel.grants.begin(), channel.grants.end(),
                     [&](const Grant& a, const Grant& b) {
                       if (a.at != b.at) return a.at < b.at;
                       return channel.from.at(a.peer)[a.message].receive <
                              channel.from.at(b.peer)[b.message].receive;
                     });
  }

  void issue_grants(Rank r, uint32_t c) {
    Channel& channel = ranks_[r].channels[c];
    while (channel.next_grant < channel.grants.size() &&
           channel.grants[channel.next_grant].at <= channel.position) {
      const Grant& grant = channel.grants[channel.next_grant++];
      Message& message = channel.from[grant.peer][grant.message];
      Pair& pair = ranks_[r].pairs[grant.peer];
      // A free slot exists, because each channel has at most window_ messages in flight.
      message.slot = static_cast<uint16_t>(std::find(pair.busy.begin(), pair.busy.end(), false) -
                                           pair.busy.begin());
      pair.busy[message.slot] = true;
      message.grant_number = pair.grants++;
      message.granted = true;
      DeviceAction action;
      action.kind = DeviceActionKind::kGrant;
      action.channel = static_cast<uint16_t>(c);
      action.number = message.receive;
      action.arrival = static_cast<uint16_t>(pair.first + message.slot);
      action.step = channel.steps[message.receive];
      result_.ranks[r].push_back(action);
    }
  }

  bool advance(Rank r, uint32_t c) {
    Channel& channel = ranks_[r].channels[c];
    if (channel.position == channel.steps.size()) return false;
    const Step& step = channel.steps[channel.position];
    DeviceAction action;
    action.channel = static_cast<uint16_t>(c);
    action.number = channel.position;
    action.step = step;
    if (step.kind == StepKind::kWait && ranks_[r].channels[step.channel].position < step.position) {
      return false;
    }
    if (step.kind == StepKind::kSend) {
      Channel& other = ranks_[step.peer].channels[c];
      const auto from = other.from.find(r);
      const uint32_t number = channel.sent[step.peer];
      if (from == other.from.end() || number >= from->second.size()) return false;
      Message& message = from->second[number];
      const Step& receive = other.steps[message.receive];
      if (!message.granted || receive.bytes != step.bytes) return false;
      action.arrival = static_cast<uint16_t>(ranks_[step.peer].pairs[r].first + message.slot);
      // Grants of other channels may have come before or after this one.
      const uint32_t before = ranks_[r].sends[step.peer];
      action.credits = std::max(message.grant_number, before) + 1 - before;
      action.remote_destination = receive.destination;
      message.sent = true;
      ++channel.sent[step.peer];
      ++ranks_[r].sends[step.peer];
    }
    if (step.kind == StepKind::kReceive) {
      Message& message = channel.from[step.peer][channel.received[step.peer]];
      if (!message.sent) return false;
      Pair& pair = ranks_[r].pairs[step.peer];
      action.arrival = static_cast<uint16_t>(pair.first + message.slot);
      pair.busy[message.slot] = false;
      ++channel.received[step.peer];
    }
    result_.ranks[r].push_back(action);
    ++channel.position;
    issue_grants(r, c);
    return true;
  }

  Result<void> check_end() const {
    for (Rank r = 0; r < ranks_.size(); ++r) {
      for (uint32_t c = 0; c < ranks_[r].channels.size(); ++c) {
        const Channel& channel = ranks_[r].channels[c];
        if (channel.position == channel.steps.size()) continue;
        const Step& step = channel.steps[channel.position];
        constexpr const char* kNames[] = {"send", "receive", "reduce", "copy", "duplicate", "wait"};
        return fail(
            CCOM_INVALID,
            "the schedule cannot be run: rank {} channel {} stays at step {} of {}, a {} of "
            "{} bytes with rank {}, which is never answered by one of this size",
            r, c, channel.position, channel.steps.size(), kNames[static_cast<unsigned>(step.kind)],
            step.bytes, step.peer);
      }
    }
    return {};
  }

  const Schedule& schedule_;
  const uint32_t arrivals_;
  uint32_t window_;
  std::vector<RankState> ranks_;
  Interleaving result_;
};

}  // namespace

Footprint footprint(const Step& step, const RankBuffers& buffers) {
  Footprint foot;
  const auto range = [&](const Slice& slice, uint64_t bytes) {
    return AddressRange{buffers.number(slice), bytes};
  };
  switch (step.kind) {
    case StepKind::kSend:
      foot.reads.push_back(range(step.source, step.bytes));
      break;
    case StepKind::kReceive:
      foot.writes.push_back(range(step.destination, step.bytes));
      break;
    case StepKind::kReduce:
      for (uint32_t i = 0; i < step.count; ++i) {
        foot.reads.push_back({buffers.number(step.source) + i * step.stride, step.bytes});
      }
      if (step.has_own) foot.reads.push_back(range(step.second, step.bytes));
      foot.writes.push_back(range(step.destination, step.bytes));
      break;
    case StepKind::kCopy:
    case StepKind::kDuplicate:
      foot.reads.push_back(range(step.source, step.bytes));
      foot.writes.push_back(range(step.destination, step.bytes));
      if (step.kind == StepKind::kDuplicate) {
        foot.writes.push_back(range(step.second, step.bytes));
      }
      break;
    case StepKind::kWait:
      break;
  }
  return foot;
}

Result<Interleaving> interleave(const Schedule& schedule, std::span<const RankBuffers> buffers,
                                uint32_t window, uint32_t arrivals) {
  if (buffers.size() != schedule.ranks()) {
    return fail(CCOM_INVALID, "a schedule of {} ranks was given the buffers of {}",
                schedule.ranks(), buffers.size());
  }
  return Run(schedule, buffers, window, arrivals).run();
}

}  // namespace neuron::ccom
