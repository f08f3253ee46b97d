// SPDX-License-Identifier: Apache-2.0
#include "ccom/progress/step_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ccom/reduction/reduction.h"

namespace neuron::ccom {
namespace {

// Steps of one channel before the other channels have their turn.
constexpr uint32_t kTurn = 64;

void move_bytes(std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes != 0 && to != from) {
    std::memmove(to, from, bytes);
  }
}

}  // namespace

StepRunner::StepRunner(Rank rank, const std::vector<Connection*>& connections,
                       std::shared_ptr<const Plan> plan, const Operands& operands,
                       std::byte* scratch, const Signature& signature)
    : connections_(connections),
      plan_(std::move(plan)),
      // Programs never write to the input, unless it is a part of the output.
      buffers_{const_cast<std::byte*>(operands.input), operands.output, scratch},
      signature_(signature) {
  const Schedule& schedule = *plan_->schedule;
  const uint32_t window = std::max(plan_->window, 1u);
  channels_.resize(schedule.channels());
  for (uint32_t i = 0; i < channels_.size(); ++i) {
    channels_[i].number = static_cast<uint16_t>(i);
    channels_[i].ahead = std::make_unique<Lookahead>(schedule.program(rank, i), window);
  }
}

StepRunner::Sends& StepRunner::sends_to(Channel& channel, Rank peer) {
  for (Sends& sends : channel.sends) {
    if (sends.peer == peer) {
      return sends;
    }
  }
  return channel.sends.emplace_back(Sends{peer, 0, 0});
}

Outcome StepRunner::fail_with(Connection* connection) {
  failed_ = connection;
  failure_ = connection->failure();
  return Outcome::kFailed;
}

std::vector<Rank> StepRunner::awaited() const {
  std::vector<Rank> ranks;
  for (const Channel& channel : channels_) {
    if (channel.waits_for != kNobody) {
      ranks.push_back(channel.waits_for);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Outcome StepRunner::advance() {
  moved_ = false;
  bool ended = true;
  waits_for_ = kNobody;
  for (Channel& channel : channels_) {
    const Outcome outcome = advance(channel);
    if (outcome == Outcome::kFailed) {
      return outcome;
    }
    ended = ended && outcome == Outcome::kDone;
    if (channel.waits_for != kNobody) {
      waits_for_ = channel.waits_for;
    }
  }
  return ended ? Outcome::kDone : Outcome::kNotYet;
}

Outcome StepRunner::advance(Channel& channel) {
  if (Outcome outcome = settle_sends(channel); outcome == Outcome::kFailed) {
    return outcome;
  }
  channel.waits_for = kNobody;
  for (uint32_t i = 0; i < kTurn && !channel.ended; ++i) {
    if (Outcome outcome = grant(channel); outcome == Outcome::kFailed) {
      return outcome;
    }
    const Step* step = channel.ahead->current();
    if (step == nullptr) {
      channel.ended = true;
      break;
    }
    Rank peer = 0;
    if (channel.ahead->sends_needed(peer) != 0) {
      channel.waits_for = peer;
      return Outcome::kNotYet;
    }
    const Outcome outcome = execute(channel, *step);
    if (outcome != Outcome::kDone) {
      return outcome;
    }
    ++steps_;
    channel.ahead->advance();
    channel.granting = true;
    moved_ = true;
  }
  if (!channel.ended) {
    return Outcome::kNotYet;
  }
  if (Outcome outcome = settle_sends(channel); outcome == Outcome::kFailed) {
    return outcome;
  }
  for (const Sends& sends : channel.sends) {
    if (sends.done != sends.started) {
      channel.waits_for = sends.peer;
      return Outcome::kNotYet;
    }
  }
  return Outcome::kDone;
}

Outcome StepRunner::settle_sends(Channel& channel) {
  for (Sends& sends : channel.sends) {
    while (sends.done < sends.started) {
      Connection* connection = connections_[sends.peer];
      const Outcome outcome = connection->sent(id(channel, sends.done));
      if (outcome == Outcome::kFailed) {
        return fail_with(connection);
      }
      if (outcome == Outcome::kNotYet) {
        break;
      }
      channel.ahead->sent(sends.peer, sends.done++);
      channel.granting = true;
      moved_ = true;
    }
  }
  return Outcome::kDone;
}

Outcome StepRunner::grant(Channel& channel) {
  while (channel.granting) {
    uint64_t number = 0;
    const Step* step = channel.ahead->grantable(number);
    if (step == nullptr) {
      channel.granting = false;
      break;
    }
    Connection* connection = connections_[step->peer];
    if (!connection->by_reference()) {
      const Outcome outcome =
          connection->grant(id(channel, number), at(step->destination), step->bytes);
      if (outcome == Outcome::kFailed) {
        return fail_with(connection);
      }
      if (outcome == Outcome::kNotYet) {
        break;
      }
      moved_ = true;
    }
    channel.ahead->granted();
  }
  return Outcome::kDone;
}

Outcome StepRunner::execute(Channel& channel, const Step& step) {
  switch (step.kind) {
    case StepKind::kSend: {
      Connection* connection = connections_[step.peer];
      const Outcome outcome = connection->send(id(channel, channel.ahead->number()),
                                               at(step.source), step.bytes, signature_);
      if (outcome == Outcome::kFailed) {
        return fail_with(connection);
      }
      if (outcome == Outcome::kDone) {
        ++sends_to(channel, step.peer).started;
      } else {
        channel.waits_for = step.peer;
      }
      return outcome;
    }
    case StepKind::kReceive:
      return receive(channel, step);
    case StepKind::kReduce:
      reduce(step);
      return Outcome::kDone;
    case StepKind::kCopy:
      move_bytes(at(step.destination), at(step.source), step.bytes);
      return Outcome::kDone;
    case StepKind::kDuplicate:
      move_bytes(at(step.destination), at(step.source), step.bytes);
      move_bytes(at(step.second), at(step.source), step.bytes);
      return Outcome::kDone;
    case StepKind::kWait:
      if (step.channel < channels_.size()) {
        if (!channels_[step.channel].ahead->completed(step.position)) {
          return Outcome::kNotYet;
        }
      }
      return Outcome::kDone;
  }
  return Outcome::kDone;
}

Outcome StepRunner::receive(Channel& channel, const Step& step) {
  Connection* connection = connections_[step.peer];
  const MessageId message = id(channel, channel.ahead->number());
  Arrival arrival;
  const Outcome outcome = connection->arrived(message, arrival);
  if (outcome == Outcome::kFailed) {
    return fail_with(connection);
  }
  if (outcome == Outcome::kNotYet) {
    channel.waits_for = step.peer;
    return outcome;
  }
  if ((arrival.signature != nullptr && !(*arrival.signature == signature_)) ||
      arrival.bytes != step.bytes) {
    failed_ = connection;
    failure_ = fail(CCOM_MISMATCH,
                    "rank {} ({}) sent {} bytes of another collective where this rank expects {}",
                    step.peer, connection->description(), arrival.bytes, step.bytes);
    connection->declined(message);
    return Outcome::kFailed;
  }
  move_bytes(at(step.destination), arrival.data, step.bytes);
  connection->consumed(message);
  bytes_ += step.bytes;
  return Outcome::kDone;
}

void StepRunner::reduce(const Step& step) {
  const Schedule& schedule = *plan_->schedule;
  const uint64_t elements = step.bytes / ccom_type_size(schedule.type);
  if (elements == 0) {
    return;
  }
  sources_.clear();
  for (uint32_t i = 0; i < step.count; ++i) {
    if (step.has_own && step.own_index == i) {
      sources_.push_back(at(step.second));
    }
    sources_.push_back(at(step.source) + i * step.stride);
  }
  if (step.has_own && step.own_index >= step.count) {
    sources_.push_back(at(step.second));
  }
  std::byte* const result = at(step.destination);
  reduce_to_many(schedule.type, schedule.reduction, &result, 1, sources_.data(),
                 static_cast<uint32_t>(sources_.size()), elements, false,
                 step.complete ? schedule.ranks() : 0);
}

}  // namespace neuron::ccom
