// SPDX-License-Identifier: Apache-2.0
//
// The version of this project's programs. Callers: any. Thread-safe. Cannot fail.
#ifndef TOOLS_COMMON_VERSION_H
#define TOOLS_COMMON_VERSION_H

namespace neuron::tools {

const char* version();  // "0.1.0"

}  // namespace neuron::tools

#endif
