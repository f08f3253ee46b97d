// SPDX-License-Identifier: Apache-2.0
// The back ends behind port.h. Callers: port.cpp, and tests that want one in particular.
//
// Each function returns null on failure, with the sentence in error.h. Thread-safe.
#ifndef DRIVER_NDL_PORT_BACKENDS_H
#define DRIVER_NDL_PORT_BACKENDS_H

#include <memory>
#include <string>

#include "driver/ndl/port.h"

struct neuron_emulator_interface;

namespace neuron::ndl {

// Device nodes `neuron<N>` in `folder`, driven by a kernel module. Fails when there is none.
std::unique_ptr<Port> kernel_port(const std::string& folder);

// A device of this process alone: dlopen()s the emulator library and builds `profile`. `library`:
// its file, or empty for libneuron-emulator.so.1 beside the library that holds this code.
std::unique_ptr<Port> embedded_port(const std::string& profile, const std::string& library);

// The same on an emulator that is loaded already; `file` is for messages.
std::unique_ptr<Port> embedded_port_on(const struct ::neuron_emulator_interface* emulator,
                                       const std::string& profile, const std::string& file);

// Devices of the neuron-emulatord that listens at `path`. `copies`: "mapping" (or empty) for large
// copies through this process's own mapping of device memory, "descriptors" for all of them through
// the device's copy ring.
std::unique_ptr<Port> shared_port(const std::string& path, const std::string& copies);

}  // namespace neuron::ndl

#endif
