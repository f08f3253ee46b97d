// SPDX-License-Identifier: Apache-2.0
//
// The service manager's protocol: messages to NOTIFY_SOCKET, and a socket that it listens on for
// us. Callers: main() and the network thread. Thread-safe: no state but the environment, which is
// read once. Fails: silently; without a manager nothing is sent.
#ifndef TOOLS_NEURON_SERVE_SD_NOTIFY_H
#define TOOLS_NEURON_SERVE_SD_NOTIFY_H

#include <chrono>
#include <string>

namespace neuron::serve {

// "READY=1\nSTATUS=..."; whether it was sent.
bool notify(const std::string& message);

// The period in which WATCHDOG=1 is expected; 0: none is.
std::chrono::microseconds watchdog_period();

// The listening socket that was passed; -1: none. `error` has a sentence if what was passed is not
// exactly one listening stream socket.
int passed_socket(std::string& error);

}  // namespace neuron::serve

#endif
