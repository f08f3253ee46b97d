// SPDX-License-Identifier: Apache-2.0
// The status of a daemon as text for people, and as JSON.
//
// Callers: main(). Pure functions. Fail: never.
#ifndef TOOLS_NEURON_EMULATORCTL_STATUS_TEXT_H
#define TOOLS_NEURON_EMULATORCTL_STATUS_TEXT_H

#include <string>

#include "driver/emulator/transport/control/control.pb.h"
#include "tools/common/format.h"

namespace neuron::emulatorctl {

// In one of the formats of all programs; ndjson and csv have a record for each device.
std::string status_as(tools::Format format, const control::Status& status);
std::string status_text(const control::Status& status);
// One object in one line; names are those of control.proto, numbers of 64 bits are strings.
std::string status_json(const control::Status& status);

}  // namespace neuron::emulatorctl

#endif
