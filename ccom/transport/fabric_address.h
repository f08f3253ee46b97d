// SPDX-License-Identifier: Apache-2.0
// Which of a host's internet addresses other ranks of the job can reach.
//
// Callers: the makers of an ExecutorContext and of an executor between hosts. Thread-safe: a
// function of its argument and the routes of the host. Fails: "" where the root is no address or
// there is no route.
#ifndef CCOM_TRANSPORT_FABRIC_ADDRESS_H
#define CCOM_TRANSPORT_FABRIC_ADDRESS_H

#include <string>

namespace neuron::ccom {

// The address that this host has on the way to `root`, which is ADDRESS:PORT or [ADDRESS]:PORT.
std::string address_towards(const std::string& root);

}  // namespace neuron::ccom

#endif
