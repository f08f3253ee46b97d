// SPDX-License-Identifier: Apache-2.0
// An endpoint over plain TCP, for hosts whose network has no provider of its own in libfabric.
//
// Concepts: its address is an internet address with a port and a token, which a connection shows
// first; strangers do not know it. A rank connects to another when it first sends to it. If both
// connect at the same time, both connections stay open, and new messages take that of the lower
// rank. A message of up to kAtOnce bytes is sent at once; if no receive waits for it, it is kept. A
// longer one is offered, and sent when its receive is there. So no message ever blocks those behind
// it, and what is kept is bounded by the window of NetworkPort. A send ends when the kernel has
// taken it. Callers: NetworkPort through FabricEndpoint, as provider "stream". Threads: one at a
// time. Owns: sockets. Fails: operations of a peer whose connection broke, with its errno value.
// close() waits up to 0.1 s for what was sent and the peers' hosts do not have yet.
#ifndef CCOM_TRANSPORT_STREAM_ENDPOINT_H
#define CCOM_TRANSPORT_STREAM_ENDPOINT_H

#include <memory>
#include <string>

#include "ccom/transport/fabric_endpoint.h"

namespace neuron::ccom {

inline constexpr const char* kStreamProvider = "stream";

// Opens one that listens at the internet address (no name, no port). CCOM_INVALID if it is none,
// CCOM_SYSTEM or CCOM_RESOURCE if the host does not have it or has no more sockets.
Result<std::unique_ptr<FabricEndpoint>> open_stream(const std::string& local_address);

}  // namespace neuron::ccom

#endif
