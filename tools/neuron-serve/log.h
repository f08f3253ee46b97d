// SPDX-License-Identifier: Apache-2.0
//
// One line a message on standard error, where the journal reads it.
// Callers: any thread. Thread-safe: a line is one write. Fails: silently; there is nowhere to say.
#ifndef TOOLS_NEURON_SERVE_LOG_H
#define TOOLS_NEURON_SERVE_LOG_H

#include <string>

namespace neuron::serve {

void log(const std::string& message);

}  // namespace neuron::serve

#endif
