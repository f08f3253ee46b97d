// SPDX-License-Identifier: Apache-2.0
//
// The events of one launch in a system trace: what the host does before, the wait, what the core
// ran, and what the host does after. They are added together at the end, so that a launch that is
// traced reads the clock four times and takes the trace's lock once.
// Callers: the executor, holding the turn of the core. One thread. Cannot fail. Without a trace it
// does nothing.
#ifndef RUNTIME_EXEC_LAUNCH_TRACE_H
#define RUNTIME_EXEC_LAUNCH_TRACE_H

#include "runtime/model/loaded_model.h"
#include "runtime/observe/system_trace.h"

namespace neuron::runtime {

class LaunchTrace {
 public:
  LaunchTrace(SystemTrace& trace, const LoadedModel& model)
      : trace_(trace.running() ? &trace : nullptr), model_(model), begin_(time()) {}
  ~LaunchTrace() {
    if (trace_ != nullptr) tell();
  }
  LaunchTrace(const LaunchTrace&) = delete;
  LaunchTrace& operator=(const LaunchTrace&) = delete;

  // The launch begins.
  void begins() { launch_ = time(); }
  // It has ended, and took the core so long.
  void ended(uint64_t device_ps) {
    device_ps_ = device_ps;
    ended_ = time();
  }

 private:
  uint64_t time() const { return trace_ != nullptr ? SystemTrace::now_ns() : 0; }
  void tell() const;

  SystemTrace* const trace_;
  const LoadedModel& model_;
  const uint64_t begin_;
  uint64_t launch_ = 0, ended_ = 0;  // 0: it did not come to that
  uint64_t device_ps_ = 0;
};

}  // namespace neuron::runtime

#endif
