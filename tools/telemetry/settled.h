// SPDX-License-Identifier: Apache-2.0
//
// A snapshot for whoever judges devices: the cores of a process that has just ended are reset, and
// a device in that is neither well nor ill. It is looked at until it is over. Callers: one thread.
// Owns nothing. Fails: never; what is still being reset at the deadline is in the snapshot as that.
#ifndef TOOLS_TELEMETRY_SETTLED_H
#define TOOLS_TELEMETRY_SETTLED_H

#include <vector>

#include "tools/telemetry/source.h"

namespace neuron::telemetry {

// `devices`: who is waited for; empty: all.
Snapshot take_settled(Source& source, const Wanted& wanted, std::chrono::milliseconds per_device,
                      const std::vector<int>& devices,
                      std::chrono::steady_clock::time_point deadline);

}  // namespace neuron::telemetry

#endif
