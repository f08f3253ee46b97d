// SPDX-License-Identifier: Apache-2.0
//
// A thread for jobs that may hang: its owner waits for a job only until a deadline.
//
// Callers: one thread. A job that is late goes on in its thread and keeps what it uses alive; no
// other job begins before it ends. Owns: the thread; if a job hangs when the owner goes, the thread
// is left behind. Fails: run() is false when the job was not done in time, or when no thread could
// be started.
#ifndef TOOLS_TELEMETRY_SIDE_THREAD_H
#define TOOLS_TELEMETRY_SIDE_THREAD_H

#include <chrono>
#include <functional>
#include <memory>

namespace neuron::telemetry {

class SideThread {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  SideThread() = default;
  ~SideThread();
  SideThread(SideThread&&) = default;
  SideThread& operator=(SideThread&&) = default;

  // Begins a job; false while the previous one has not ended.
  bool begin(std::function<void()> job);
  // True if the job has ended by the deadline.
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
