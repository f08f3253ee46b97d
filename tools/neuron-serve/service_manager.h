// SPDX-License-Identifier: Apache-2.0
//
// What the service manager wants of this process and has passed to it, read with libsystemd.
// Callers: main() and the network thread, once. Thread-safe: reads the environment only.
// Fails: without a manager nothing is wanted and nothing is passed.
#ifndef TOOLS_NEURON_SERVE_SERVICE_MANAGER_H
#define TOOLS_NEURON_SERVE_SERVICE_MANAGER_H

#include <chrono>
#include <string>

namespace neuron::serve {

// The period in which WATCHDOG=1 is expected; 0: none is.
std::chrono::microseconds watchdog_period();

// The listening socket that was passed; -1: none. `error` has a sentence if what was passed is not
// exactly one listening stream socket.
int passed_socket(std::string& error);

}  // namespace neuron::serve

#endif
