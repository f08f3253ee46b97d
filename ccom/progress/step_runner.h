// SPDX-License-Identifier: Apache-2.0
// Interprets the programs of one rank over its connections, of any kind.
//
// Concepts: each channel has a Lookahead, which says which receives may be granted and which sends
// a step must wait for. A round visits every channel and advances it as far as possible. No step
// names bytes outside its buffers: the planner checked the schedule. Callers: NetworkExecutor.
// Threads: one at a time. Borrows: plan's schedule (shared), buffers, connections. Fails: with the
// failure of the connection that failed.
#ifndef CCOM_PROGRESS_STEP_RUNNER_H
#define CCOM_PROGRESS_STEP_RUNNER_H

#include <array>
#include <memory>
#include <vector>

#include "ccom/plan/planner.h"
#include "ccom/progress/executor.h"
#include "ccom/schedule/lookahead.h"
#include "ccom/transport/connection.h"

namespace neuron::ccom {

class StepRunner {
 public:
  // `connections`: by rank, null for the own. `scratch`: the bytes that the schedule asks for.
  StepRunner(Rank rank, const std::vector<Connection*>& connections,
             std::shared_ptr<const Plan> plan, const Operands& operands, std::byte* scratch,
             const Signature& signature);

  // One round. kDone: all programs have ended, and the buffers are the caller's again.
  Outcome advance();
  // Whether the last round did something.
  bool moved() const { return moved_; }
  // The connection that failed, after kFailed; null if a connection was missing.
  Connection* failed() const { return failed_; }
  const Error& failure() const { return failure_; }

  static constexpr Rank kNobody = ~Rank{0};
  // The rank that a channel waits for; kNobody if no channel waits.
  Rank waits_for() const { return waits_for_; }
  uint64_t steps() const { return steps_; }
  uint64_t bytes() const { return bytes_; }
  // All peers that channels wait for, in order.
  std::vector<Rank> awaited() const;

 private:
  struct Sends {
    Rank peer = 0;
    uint64_t started = 0;
    uint64_t done = 0;
  };
  struct Channel {
    std::unique_ptr<Lookahead> ahead;
    std::vector<Sends> sends;
    Rank waits_for = kNobody;
    uint16_t number = 0;
    bool ended = false;
    bool granting = true;  // a grant may be possible since the last round
  };

  Outcome advance(Channel& channel);
  Outcome settle_sends(Channel& channel);
  Outcome grant(Channel& channel);
  Outcome execute(Channel& channel, const Step& step);
  Outcome receive(Channel& channel, const Step& step);
  void reduce(const Step& step);
  std::byte* at(const Slice& slice) const {
    return buffers_[static_cast<size_t>(slice.buffer)] + slice.offset;
  }
  MessageId id(const Channel& channel, uint64_t number) const {
    return {signature_.stream, channel.number, signature_.operation, number};
  }
  Outcome fail_with(Connection* connection);
  Sends& sends_to(Channel& channel, Rank peer);

  const std::vector<Connection*>& connections_;
  std::shared_ptr<const Plan> plan_;
  std::array<std::byte*, 3> buffers_;
  Signature signature_;
  std::vector<Channel> channels_;
  std::vector<const std::byte*> sources_;  // of a reduction
  bool moved_ = false;
  Rank waits_for_ = kNobody;
  uint64_t steps_ = 0;
  uint64_t bytes_ = 0;
  Connection* failed_ = nullptr;
  Error failure_;
};

}  // namespace neuron::ccom

#endif
