// SPDX-License-Identifier: Apache-2.0
// Finds an internet address of this host that other ranks of the job can reach.
//
// Callers: the makers of an ExecutorContext and of an executor between hosts. Thread-safe: a
// function of its argument and the routes of the host. Fails: "" if the root is not an address or
// there is no route.
#ifndef CCOM_TRANSPORT_FABRIC_ADDRESS_H
#define CCOM_TRANSPORT_FABRIC_ADDRESS_H

#include <string>

namespace neuron::ccom {

// This host's address on the route to `root`, which is ADDRESS:PORT or [ADDRESS]:PORT.
std::string address_towards(const std::string& root);

}  // namespace neuron::ccom

#endif
