// SPDX-License-Identifier: Apache-2.0
//
// Judges whether a device is healthy by its own counters and state.
// Callers: neuron-doctor, neuron-ls, neuron-monitor. Thread-safe: no state. Cannot fail.
#ifndef TOOLS_TELEMETRY_HEALTH_H
#define TOOLS_TELEMETRY_HEALTH_H

#include <string>
#include <vector>

#include "tools/telemetry/snapshot.h"

namespace neuron::telemetry {

struct Ailment {
  std::string what;    // "2 uncorrectable errors of HBM"
  std::string action;  // "replace the instance"
  bool fatal = true;   // false: the device works, but an operator should know
};

// Empty: healthy.
std::vector<Ailment> ailments(const Device& device);
// No ailment is fatal.
bool is_healthy(const Device& device);

}  // namespace neuron::telemetry

#endif
