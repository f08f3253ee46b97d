// SPDX-License-Identifier: Apache-2.0
//
// A model becomes a NEFF, and with --check is executed and compared.
// Callers: main(), one thread. Fails: a status of the manual, with sentences on standard error.
#ifndef TOOLS_NEURON_COMPILE_COMPILE_H
#define TOOLS_NEURON_COMPILE_COMPILE_H

#include "tools/neuron-compile/options.h"

namespace neuron::compile {

// Exit statuses beside those of all tools.
inline constexpr int kNotAModel = 3;
inline constexpr int kNotSupported = 4;
inline constexpr int kDifferent = 5;

int compile(const Options& options);

}  // namespace neuron::compile

#endif
