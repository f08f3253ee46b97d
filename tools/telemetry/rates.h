// SPDX-License-Identifier: Apache-2.0
//
// Computes the activity between two readings of growing counters: differences, shares, rates.
//
// Callers: programs that repeat snapshots; any thread, values only. A counter that went back was
// reset, or belongs to another owner: it counts from zero. Cannot fail: an interval of 0 gives 0.
#ifndef TOOLS_TELEMETRY_RATES_H
#define TOOLS_TELEMETRY_RATES_H

#include "tools/telemetry/snapshot.h"

namespace neuron::telemetry {

inline uint64_t growth(uint64_t before, uint64_t now) { return now >= before ? now - before : now; }
CoreCounters growth(const CoreCounters& before, const CoreCounters& now);
HardwareCounters growth(const HardwareCounters& before, const HardwareCounters& now);

// Executions that did not end well.
uint64_t failures(const CoreCounters& counters);

// Seconds of the monotonic clock; 0 if it did not advance.
double seconds_between(const Snapshot& before, const Snapshot& now);

// From 0 to 1; of nothing, 0.
double share(double part, double whole);

// The rates of one physical core, or a sum of them. Shares are from 0 to 1, the rest is per second.
struct CoreRates {
  double busy = 0, collectives = 0;
  std::array<double, 5> engines{};
  double flops = 0, executions = 0, dma_bytes = 0, link_bytes = 0;
};
// `grown`: the result of growth().
CoreRates rates(const CoreCounters& grown, double seconds);

// Shares of the time of all states, in the order of ProcessorTimes.
using ProcessorShares = std::array<double, 7>;
ProcessorShares processor_shares(const ProcessorTimes& before, const ProcessorTimes& now);

}  // namespace neuron::telemetry

#endif
