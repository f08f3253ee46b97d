// SPDX-License-Identifier: Apache-2.0
// Tells an executor with credits, for one channel, when each receive may be granted and which sends
// a step must wait for.
//
// Concepts: a Lookahead reads a program some steps ahead of the executor. A receive becomes
// grantable when no step between the executor's position and the receive touches its destination,
// every send that reads the destination is known to be done, no kWait stands before it, and fewer
// than `window` messages of its peer are granted. A step that writes where an earlier send of this
// channel reads is held until that send is done. Only kWait orders steps of different channels: the
// checker refuses schedules that rely on more. Callers: executors of connections with credits; the
// checker. Threads: one. Cannot fail.
#ifndef CCOM_SCHEDULE_LOOKAHEAD_H
#define CCOM_SCHEDULE_LOOKAHEAD_H

#include <cstdint>
#include <memory>

#include "ccom/schedule/schedule.h"

namespace neuron::ccom {

// How many steps are read ahead. Every schedule that passes the checker works with this many and
// with more.
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
  // Marks the current step as done (a send: started) and moves on.
  void advance();
  // The number of the current step, from 0.
  uint64_t position() const;

  // The next receive that may be granted and has not been; null: none now. Valid until advance().
  // `number`: its number among the messages of its peer, from 0.
  const Step* grantable(uint64_t& number);
  void granted();  // grants the receive that grantable() returned last
  // How many of this channel's sends to `peer` must be done before the current step may be
  // executed; 0: none to any peer. Ask again when they are done: there may be another peer.
  uint64_t sends_needed(Rank& peer) const;
  void sent(Rank peer, uint64_t number);  // a send to `peer` is known to be done
  // The number of the current send or receive among those with its peer, from 0.
  uint64_t number() const;
  // Whether the first `position` steps have been executed and their sends are done, which is what
  // kWait waits for.
  bool completed(uint64_t position) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neuron::ccom

#endif
