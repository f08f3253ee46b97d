// SPDX-License-Identifier: Apache-2.0
// A rank's channel with what executors with credits need: when each receive may be granted, and
// which sends a step must wait for.
//
// Concepts: reads a program some steps ahead of the executor. A receive becomes grantable when its
// destination is touched by no step between the executor's position and it, no send that is not
// known to be done reads it, no kWait stands before it, and fewer than `window` messages of its
// peer are granted. A step that writes where an earlier send of this channel reads from is held
// until that send is done. Steps of other channels are ordered by kWait alone: the checker refuses
// schedules that rely on more. Callers: executors of connections with credits; the checker.
// Threads: one. No failure.
#ifndef CCOM_SCHEDULE_LOOKAHEAD_H
#define CCOM_SCHEDULE_LOOKAHEAD_H

#include <cstdint>
#include <memory>

#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

// Steps read ahead. Every schedule that the checker passes ends with this many and with more.
inline constexpr uint32_t kLookaheadSteps = 32;

class Lookahead {
 public:
  // `horizon`: steps read ahead, at least one. `window`: at least one.
  Lookahead(std::unique_ptr<Program> program, uint32_t window, uint32_t horizon = kLookaheadSteps);
  ~Lookahead();
  Lookahead(Lookahead&&) noexcept;
  Lookahead& operator=(Lookahead&&) noexcept;

  // The step to execute now; null at the end. Valid until advance().
  const Step* current() const;
  // The step is done (a send: started). Moves on.
  void advance();
  // Number of the current step, from 0.
  uint64_t position() const;

  // The next receive that may be granted and has not been; null: none now. Valid until advance().
  // `number`: of its peer, from 0.
  const Step* grantable(uint64_t& number);
  void granted();  // the one that grantable() gave last was
  // How many of this channel's sends to `peer` must be done before the current step may be
  // executed; 0: none of any peer. Ask again after they are: there may be another peer.
  uint64_t sends_needed(Rank& peer) const;
  void sent(Rank peer, uint64_t number);  // a send to `peer` is known to be done
  // Number of the current send or receive among those with its peer, from 0.
  uint64_t number() const;
  // The first `position` steps have been executed and their sends are done: what kWait waits for.
  bool completed(uint64_t position) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neuron::ccom

#endif
