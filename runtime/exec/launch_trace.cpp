// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/launch_trace.h"

#include "runtime/observe/trace_clock.h"

namespace neuron::runtime {

SystemTrace::Details ExecuteTrace::details(uint64_t host_ns) const {
  return {.id = id_, .core = model_.core().index(), .name = model_.name(), .host_ns = host_ns};
}

void ExecuteTrace::tell_start() {
  id_ = trace_->next_id(1 + SystemTrace::kIdsOfLaunch);
  begin_ns_ = TraceClock::now_ns();
  entry_ = trace_->add(TraceEvent::kExecute, true, details(begin_ns_));
}

void ExecuteTrace::waited() {
  if (trace_ != nullptr) begin_ns_ = TraceClock::now_ns();
}

void ExecuteTrace::tell_stop() {
  const uint64_t now = TraceClock::now_ns();
  if (has_launched_) {
    last_.end_ns = now;
    last_.ends_call = last_.id == id_ + 1;
    trace_->add(last_);
    if (last_.ends_call) return;
  }
  trace_->add(TraceEvent::kExecute, false, details(now));
}

void LaunchTrace::begin() {
  if (call_ != nullptr && call_->trace_ == nullptr) call_ = nullptr;  // the trace began meanwhile
  if (call_ != nullptr && !call_->has_launched_) {
    call_->has_launched_ = true;
    call_->last_.id = call_->id_ + 1;
    call_->last_.begin_ns = call_->begin_ns_;
    call_->last_.call_entry = call_->entry_;
    return;
  }
  const uint64_t now = TraceClock::now_ns();
  if (call_ != nullptr) {
    // The launch before, of a call that repeats.
    call_->last_.end_ns = now;
    trace_->add(call_->last_);
    call_->last_ = {};
  }
  launch().id = trace_->next_id(SystemTrace::kIdsOfLaunch);
  launch().begin_ns = now;
}

void LaunchTrace::ran(const CoreLaunch::Times& times, uint64_t device_ps) {
  if (trace_ == nullptr) return;
  SystemTrace::Launch& launch = this->launch();
  launch.launched_ns = TraceClock::host_ns(times.begin_ns);
  launch.ended_ns = TraceClock::host_ns(times.end_ns);
  launch.device_ps = device_ps;
  launch.core_ps = trace_->advance(model_.core().index(), device_ps);
}

void LaunchTrace::end() {
  SystemTrace::Launch& launch = this->launch();
  launch.core = model_.core().index();
  launch.thread = SystemTrace::thread_number();
  launch.model = model_.name();
  launch.collective = !model_.operations().empty();
  launch.exec_id = model_.core().executions;
  if (call_ != nullptr) return;
  launch.end_ns = TraceClock::now_ns();
  trace_->add(launch);
}

}  // namespace neuron::runtime
