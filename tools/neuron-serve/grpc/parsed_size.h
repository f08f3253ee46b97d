// SPDX-License-Identifier: Apache-2.0
//
// How much memory a ModelInferRequest takes once it is parsed, found out before it is.
//
// Concept: the messages of protocol buffers may be far smaller than what they become. A tensor
// without any field takes two bytes of a message and some hundreds of memory, and a number of one
// byte takes eight. So the server counts first what parsing will allocate.
// Callers: any thread. No state. Cannot fail: what is malformed ends the count where it would end
// the parser.
#ifndef TOOLS_NEURON_SERVE_GRPC_PARSED_SIZE_H
#define TOOLS_NEURON_SERVE_GRPC_PARSED_SIZE_H

#include <cstddef>
#include <string_view>

namespace neuron::serve {

// Never less than what the parser allocates for these bytes.
size_t parsed_size(std::string_view message);

}  // namespace neuron::serve

#endif
