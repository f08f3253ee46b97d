// SPDX-License-Identifier: Apache-2.0
//
// A call of nrt_execute and its launches in a system trace: what the host does before, the wait,
// what the core ran, and what the host does after.
//
// The start of a call is there at once, so that a trace shows a call that hangs. All else is added
// at the end, with the call's stop: a call that is traced reads two clocks more than another and
// takes the trace's lock twice. Callers: nrt_execute; the executor, holding the turn of the core.
// One thread. Cannot fail. Without a trace both do nothing.
#ifndef RUNTIME_EXEC_LAUNCH_TRACE_H
#define RUNTIME_EXEC_LAUNCH_TRACE_H

#include "runtime/device/core_launch.h"
#include "runtime/model/loaded_model.h"
#include "runtime/observe/system_trace.h"

namespace neuron::runtime {

class ExecuteTrace {
 public:
  ExecuteTrace(SystemTrace& trace, const LoadedModel& model)
      : trace_(trace.running() ? &trace : nullptr), model_(model) {
    if (trace_ != nullptr) tell_start();
  }
  ~ExecuteTrace() {
    if (trace_ != nullptr) tell_stop();
  }
  ExecuteTrace(const ExecuteTrace&) = delete;
  ExecuteTrace& operator=(const ExecuteTrace&) = delete;

  // The core was another thread's until now: what the host does before a launch begins here.
  void waited();

 private:
  friend class LaunchTrace;
  void tell_start();
  void tell_stop();
  SystemTrace::Details details(uint64_t host_ns) const;

  SystemTrace* const trace_;
  const LoadedModel& model_;
  uint64_t id_ = 0;
  uint64_t begin_ns_ = 0;  // of the first launch
  uint64_t entry_ = 0;     // of the start
  bool has_launched_ = false;
  SystemTrace::Launch last_;  // the last launch, which has no end yet
};

class LaunchTrace {
 public:
  // `call`: null for a launch of a schedule.
  LaunchTrace(SystemTrace& trace, const LoadedModel& model, ExecuteTrace* call)
      : trace_(trace.running() ? &trace : nullptr), model_(model), call_(call) {
    if (trace_ != nullptr) begin();
  }
  ~LaunchTrace() {
    if (trace_ != nullptr) end();
  }
  LaunchTrace(const LaunchTrace&) = delete;
  LaunchTrace& operator=(const LaunchTrace&) = delete;

  // The launch has ended, and took the core so long.
  void ran(const CoreLaunch::Times& times, uint64_t device_ps);

 private:
  void begin();
  void end();
  SystemTrace::Launch& launch() { return call_ != nullptr ? call_->last_ : own_; }

  SystemTrace* const trace_;
  const LoadedModel& model_;
  ExecuteTrace* call_;
  SystemTrace::Launch own_;  // without a call
};

}  // namespace neuron::runtime

#endif
