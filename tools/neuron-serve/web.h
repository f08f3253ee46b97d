// SPDX-License-Identifier: Apache-2.0
//
// The page at /: web/index.html, which the build puts into the program.
// Callers: the network thread. Thread-safe: constant. Does not fail.
#ifndef TOOLS_NEURON_SERVE_WEB_H
#define TOOLS_NEURON_SERVE_WEB_H

#include <string_view>

namespace neuron::serve {

std::string_view web_page();

}  // namespace neuron::serve

#endif
