// SPDX-License-Identifier: Apache-2.0
// The node as the Neuron driver of this host reports it: chips, their links, the host's EFA
// devices.
//
// Concepts: it opens each device while it reads the device's neighbours; if the device is open
// already, this is one more reference. It needs libnrt.so.1 for the ndl_ calls. Callers: the
// communicator. Threads: any, one at a time. Fails: CCOM_UNSUPPORTED without a device, CCOM_SYSTEM
// with the device that cannot be opened.
#ifndef CCOM_TOPOLOGY_DRIVER_H
#define CCOM_TOPOLOGY_DRIVER_H

#include "ccom/topology/topology.h"

namespace neuron::ccom {

Result<NodeProfile> profile_of_driver();

}  // namespace neuron::ccom

#endif
