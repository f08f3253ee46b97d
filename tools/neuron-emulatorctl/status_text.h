// SPDX-License-Identifier: Apache-2.0
// The status of a daemon as text for people, and as JSON.
//
// Callers: main(). Pure functions. Fail: never.
#ifndef TOOLS_NEURON_EMULATORCTL_STATUS_TEXT_H
#define TOOLS_NEURON_EMULATORCTL_STATUS_TEXT_H

#include <string>

#include "driver/emulator/transport/control/control.pb.h"

namespace neuron::emulatorctl {

std::string status_text(const control::Status& status);
// One object in one line; names are those of control.proto, numbers of 64 bits are strings.
std::string status_json(const control::Status& status);

}  // namespace neuron::emulatorctl

#endif
