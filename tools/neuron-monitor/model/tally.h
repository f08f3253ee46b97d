// SPDX-License-Identifier: Apache-2.0
//
// Executions as the report counts them: how they ended, which errors they had, how long they took.
// Callers: Observer and MetricFamilies. Thread-safe: no state. Cannot fail.
#ifndef TOOLS_NEURON_MONITOR_MODEL_TALLY_H
#define TOOLS_NEURON_MONITOR_MODEL_TALLY_H

#include <optional>

#include "tools/neuron-monitor/model/observation.h"

namespace neuron::monitor {

Tally tally(const telemetry::CoreCounters& of);
Tally& operator+=(Tally& to, const Tally& more);

// The values of a bucket are assumed to be spread evenly between its bounds.
std::optional<Latencies> percentiles(const telemetry::LatencyHistogram& histogram);

}  // namespace neuron::monitor

#endif
