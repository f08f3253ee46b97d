// SPDX-License-Identifier: Apache-2.0
//
// Judges whether a device is healthy by its own counters and state.
// Callers: neuron-doctor, neuron-ls --check. Thread-safe: no state. Cannot fail.
#ifndef TOOLS_NEURON_DOCTOR_CHECKS_HEALTH_H
#define TOOLS_NEURON_DOCTOR_CHECKS_HEALTH_H

#include <string>
#include <vector>

#include "tools/telemetry/snapshot.h"

namespace neuron::doctor {

struct Ailment {
  std::string what;    // "2 uncorrectable errors of HBM"
  std::string action;  // "replace the instance"
  bool fatal = true;   // false: the device works, but an operator should know
};

// Empty: healthy.
std::vector<Ailment> ailments(const telemetry::Device& device);

}  // namespace neuron::doctor

#endif
