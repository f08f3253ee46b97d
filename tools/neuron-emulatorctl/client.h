// SPDX-License-Identifier: Apache-2.0
// A connection to the control channel of a daemon: one request, one response.
//
// Callers: main(), one thread. Owns nothing beyond a call. Fails: kNoDaemon with a sentence if no
// daemon answers, kRefused with the daemon's sentence.
#ifndef TOOLS_NEURON_EMULATORCTL_CLIENT_H
#define TOOLS_NEURON_EMULATORCTL_CLIENT_H

#include <string>

#include "driver/emulator/transport/control/control.pb.h"

namespace neuron::emulatorctl {

enum class Outcome { kDone = 0, kRefused = 1, kNoDaemon = 3 };

// The path of the control channel if NEURON_EMULATOR is "unix:PATH", else empty.
std::string path_of_environment();
// The path of the control channel of the daemon at `socket`.
std::string control_path(const std::string& socket);

Outcome ask(const std::string& path, const control::Request& request, control::Response& response,
            std::string& error);

}  // namespace neuron::emulatorctl

#endif
