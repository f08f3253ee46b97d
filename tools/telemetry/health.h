// SPDX-License-Identifier: Apache-2.0
// Judges whether a device is healthy by its own counters and state.
// Callers: neuron-doctor, neuron-ls, neuron-monitor. Thread-safe: no state. Cannot fail.
#ifndef TOOLS_TELEMETRY_HEALTH_H
#define TOOLS_TELEMETRY_HEALTH_H

#include <optional>
#include <string>
#include <vector>

#include "tools/telemetry/snapshot.h"

namespace neuron::telemetry {

struct Ailment {
  std::string what;    // "2 uncorrectable errors of HBM"
  std::string action;  // "replace the instance"
  bool fatal = true;   // false: the device works, but an operator should know
};

// What an operator should know of it; empty: nothing.
std::vector<Ailment> ailments(const Device& device);
// No ailment is fatal.
bool is_healthy(const Device& device);
// The neighbours whose link is down. None: nobody knows, because the device could not be read; it
// has no links in the snapshot then, which would read as all of them up.
std::optional<std::vector<unsigned>> links_down(const Device& device);

}  // namespace neuron::telemetry

#endif
