// SPDX-License-Identifier: Apache-2.0
//
// The activity between two snapshots: shares, rates and tallies of cores and processes.
//
// Callers: the view, one thread. Values. Cannot fail: a new process counts from its start; the very
// first snapshot, and a device that did not answer before, have no activity.
#ifndef TOOLS_NEURON_TOP_MODEL_ACTIVITY_H
#define TOOLS_NEURON_TOP_MODEL_ACTIVITY_H

#include <map>
#include <tuple>

#include "tools/telemetry/rates.h"

namespace neuron::top {

// The activity of one process on one physical core, or a sum of them.
struct Activity : telemetry::CoreRates {
  uint64_t errors = 0;  // executions that did not end well, since the process began

  Activity& operator+=(const Activity& other);
  Activity& operator/=(double divisor);  // of the shares only: rates add up
};

// pid, device, physical core.
using CorePlace = std::tuple<int, unsigned, unsigned>;

struct Interval {
  double seconds = 0;  // 0: there was no earlier snapshot
  std::map<CorePlace, Activity> activities;
  // Shares of all processors of the host, 0 to 1.
  double system_user = 0, system_system = 0;
  // Of the processes, by pid; 1 is one processor.
  std::map<int, std::pair<double, double>> process_times;
};

Interval compare(const telemetry::Snapshot* before, const telemetry::Snapshot& now);

}  // namespace neuron::top

#endif
