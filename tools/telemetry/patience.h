// SPDX-License-Identifier: Apache-2.0
//
// A thread that does what may hang, for a caller who waits only so long.
//
// Callers: one thread. A job that is late goes on in its thread, and keeps what it uses alive;
// until it ends no other one is begun. Owns: the thread, which is left behind if it hangs when the
// owner goes. Fails: run() is false when the job was not done in time, or the thread could not be
// had.
#ifndef TOOLS_TELEMETRY_PATIENCE_H
#define TOOLS_TELEMETRY_PATIENCE_H

#include <chrono>
#include <functional>
#include <memory>

namespace neuron::telemetry {

class Patience {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Patience() = default;
  ~Patience();
  Patience(Patience&&) = default;
  Patience& operator=(Patience&&) = default;

  // Begins a job; false while the one before it has not ended.
  bool begin(std::function<void()> job);
  // Whether the job has ended by then.
  bool ended_by(Deadline deadline);
  bool run(std::function<void()> job, Deadline deadline) {
    return begin(std::move(job)) && ended_by(deadline);
  }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace neuron::telemetry

#endif
