// SPDX-License-Identifier: Apache-2.0
//
// What a NEFF says about itself, for people and for programs. Callers: neuron-packager.
// Thread-safe: no state. Works on any NEFF that opens. For a program in another encoding it shows
// the header and the reason why the program cannot be run. Text out of the file is shown without
// control characters.
#ifndef RUNTIME_NEFF_NEFF_INFO_H
#define RUNTIME_NEFF_NEFF_INFO_H

#include <string>

#include "runtime/neff/container.h"

namespace neuron::tools {

// Header fields, then one line for every input and output.
std::string neff_info_text(const neff::Container& container);

// One JSON object on one line.
std::string neff_info_json(const neff::Container& container);

}  // namespace neuron::tools

#endif
