// SPDX-License-Identifier: Apache-2.0
//
// The libraries of this host that a container without them can use. Callers: main(). Thread-safe:
// no state. Fails with NRT_FAILURE and a sentence if the runtime cannot be found.
#ifndef TOOLS_NEURON_CDI_LIBRARIES_H
#define TOOLS_NEURON_CDI_LIBRARIES_H

#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tools/neuron-cdi/specification.h"

namespace neuron::cdi {

// libnrt.so.1 as it is loaded here, and libccom.so.1 and libneuron-emulator.so.1 if they lie beside
// it: real files of the host, mounted in `folder` of the container.
runtime::Result<std::vector<Mount>> find_libraries(const std::string& folder);

}  // namespace neuron::cdi

#endif
