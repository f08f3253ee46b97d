// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/model/activity.h"

#include <algorithm>

namespace neuron::top {
namespace {

using telemetry::CoreCounters;
using telemetry::growth;
using telemetry::Snapshot;

const telemetry::Process* find(const Snapshot& snapshot, int pid) {
  for (const telemetry::Process& process : snapshot.processes) {
    if (process.pid == pid) return &process;
  }
  return nullptr;
}

// True if the device answered when the snapshot was taken. If it did not, the counters of its
// processes are unknown; taking them for zero would make all their work that of one interval.
bool answered(const Snapshot& snapshot, unsigned device) {
  for (const telemetry::Device& other : snapshot.devices) {
    if (other.index == device) return other.error.empty();
  }
  return false;
}

}  // namespace

Activity& Activity::operator+=(const Activity& other) {
  busy += other.busy;
  collectives += other.collectives;
  for (size_t i = 0; i < engines.size(); ++i) engines[i] += other.engines[i];
  flops += other.flops;
  executions += other.executions;
  dma_bytes += other.dma_bytes;
  link_bytes += other.link_bytes;
  errors += other.errors;
  return *this;
}

Activity& Activity::operator/=(double divisor) {
  busy /= divisor;
  collectives /= divisor;
  for (double& engine : engines) engine /= divisor;
  return *this;
}

Interval compare(const Snapshot* before, const Snapshot& now) {
  Interval interval;
  if (before != nullptr) interval.seconds = seconds_between(*before, now);
  const bool known = interval.seconds > 0;
  if (known) {
    const auto [user, nice, system, idle, io_wait, irq, soft_irq] =
        processor_shares(before->host.all, now.host.all);
    interval.system_user = std::min(1.0, user + nice);
    interval.system_system = std::min(1.0, system + irq + soft_irq);
  }
  for (const telemetry::Process& process : now.processes) {
    const telemetry::Process* earlier = known ? find(*before, process.pid) : nullptr;
    if (earlier != nullptr) {
      const double microseconds = interval.seconds * 1e6;
      interval.process_times[process.pid] = {
          static_cast<double>(growth(earlier->user_us, process.user_us)) / microseconds,
          static_cast<double>(growth(earlier->system_us, process.system_us)) / microseconds};
    }
    for (const telemetry::ProcessOnCore& core : process.cores) {
      CoreCounters start;
      bool counted = known && answered(*before, core.device);
      if (earlier != nullptr) {
        for (const telemetry::ProcessOnCore& other : earlier->cores) {
          if (other.device == core.device && other.physical_core == core.physical_core) {
            start = other.counters;
            counted = true;
          }
        }
      }
      Activity& activity = interval.activities[{process.pid, core.device, core.physical_core}];
      if (counted) {
        static_cast<telemetry::CoreRates&>(activity) =
            rates(growth(start, core.counters), interval.seconds);
      }
      activity.errors = failures(core.counters);
    }
  }
  return interval;
}

}  // namespace neuron::top
