// SPDX-License-Identifier: Apache-2.0
// Questions of ndl_observe.h about a kernel's devices: from sysfs, and from the driver's answers to
// processes.
//
// Callers: port_kernel, any thread. The module of this project answers without an attached process.
// Another driver tells some things (holders, links, datastores) only to attached processes: the
// call then opens the device, only while it is ready, and closes it before it returns. Fails:
// negative errno with the sentence in error.h.
#ifndef DRIVER_NDL_OBSERVE_KERNEL_H
#define DRIVER_NDL_OBSERVE_KERNEL_H

#include <string>

#include "driver/ndl/port.h"

namespace neuron::ndl {

// `nodes`: where the device nodes are.
int observe_kernel(Port& port, const std::string& nodes, const neuron_emulator_question& question,
                   std::string& answer);

}  // namespace neuron::ndl

#endif
