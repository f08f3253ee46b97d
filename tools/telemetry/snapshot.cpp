// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/snapshot.h"

namespace neuron::telemetry {

const char* name(DeviceState state) {
  switch (state) {
    case DeviceState::kReady:
      return "ready";
    case DeviceState::kResetting:
      return "resetting";
    case DeviceState::kInvalid:
      return "invalid";
    case DeviceState::kOff:
      return "off";
    case DeviceState::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace neuron::telemetry
