// SPDX-License-Identifier: Apache-2.0
//
// The one session of the process, and the right to use it.
// Callers: every C function. Thread-safe: all. State: never opened, open, closing, closed, or a
// forked child of a process that had it open. close_session() waits for calls that are running,
// with a deadline, before it destroys the session. Fails: SessionUse is empty outside the open
// state; its error says why and what to do.
#ifndef RUNTIME_SESSION_LIFECYCLE_H
#define RUNTIME_SESSION_LIFECYCLE_H

#include "runtime/session/session.h"

namespace neuron::runtime {

// Idempotent while a session is open.
Result<void> open_session(const Caller& caller);
Result<void> close_session();

class SessionUse {
 public:
  SessionUse() noexcept;
  ~SessionUse();
  SessionUse(const SessionUse&) = delete;
  SessionUse& operator=(const SessionUse&) = delete;

  explicit operator bool() const { return session_ != nullptr; }
  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_; }
  // Why there is no session.
  Error error() const;

 private:
  Session* session_ = nullptr;
  uint32_t state_ = 0;
};

}  // namespace neuron::runtime

#endif
