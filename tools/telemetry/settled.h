// SPDX-License-Identifier: Apache-2.0
//
// A snapshot for programs that judge devices. The driver resets the cores of a process that has
// just ended, and a device cannot be judged meanwhile. So the snapshot is repeated until no device
// is being reset. Callers: one thread. Owns nothing. Cannot fail: a device that is still being
// reset at the deadline has that state in the snapshot.
#ifndef TOOLS_TELEMETRY_SETTLED_H
#define TOOLS_TELEMETRY_SETTLED_H

#include <vector>

#include "tools/telemetry/source.h"

namespace neuron::telemetry {

// `devices`: the devices to wait for; empty: all.
Snapshot take_settled(Source& source, const Wanted& wanted, std::chrono::milliseconds per_device,
                      const std::vector<int>& devices,
                      std::chrono::steady_clock::time_point deadline);

}  // namespace neuron::telemetry

#endif
