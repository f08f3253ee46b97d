// SPDX-License-Identifier: Apache-2.0
//
// The program's input: a file, or standard input for "-". Callers: neuron-as. Thread-safe: no
// state. Fails with a sentence that names the file and the system's reason.
#ifndef TOOLS_NEURON_AS_INPUT_H
#define TOOLS_NEURON_AS_INPUT_H

#include <string>

#include "runtime/base/file.h"

namespace neuron::tools {

runtime::Result<std::vector<uint8_t>> read_input(const std::string& path);

}  // namespace neuron::tools

#endif
