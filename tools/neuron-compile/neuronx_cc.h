// SPDX-License-Identifier: Apache-2.0
//
// The command line of Amazon's compiler, neuronx-cc, for programs that call it by that name, and
// its documented error codes where they mean the same.
// Callers: main(), tests. Thread-safe: no state. Fails: never; what is unknown stays as it is and
// is refused by who reads the words.
#ifndef TOOLS_NEURON_COMPILE_NEURONX_CC_H
#define TOOLS_NEURON_COMPILE_NEURONX_CC_H

#include <string>
#include <vector>

#include "tools/compiler/graph/refusal.h"

namespace neuron::compile {

// Whether these arguments, the program's name first, are of that command line: they begin with one
// of its commands, or the program is called so.
bool is_neuronx_cc(const std::vector<std::string>& words);

// A sentence if these arguments ask for stages without that which writes a NEFF; else "".
std::string unsupported_stages(const std::vector<std::string>& words);

// The same in our words: the command is gone, -lnc is --lnc, and options for the inside of that
// compiler, which have no meaning here, are left out.
std::vector<std::string> from_neuronx_cc(const std::vector<std::string>& words);

// "NCC_EUOC002"; "" if none means this.
const char* neuronx_cc_code(const graph::Refusal& refusal);

}  // namespace neuron::compile

#endif
