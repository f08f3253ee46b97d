// SPDX-License-Identifier: Apache-2.0
// FabricEndpoint over a provider of libfabric: one reliable datagram endpoint, one completion
// queue.
//
// Callers: fabric_provider.cpp. Threads, ownership, failures: as FabricEndpoint says. It takes
// ownership of the provider's description (fi_info).
#ifndef CCOM_TRANSPORT_FABRIC_LIBFABRIC_H
#define CCOM_TRANSPORT_FABRIC_LIBFABRIC_H

#include <memory>

#include "ccom/transport/fabric_endpoint.h"

struct fi_info;

namespace neuron::ccom {

// The kinds of memory registration that we support, as a hint for fi_getinfo.
uint64_t fabric_memory_modes();
Result<std::unique_ptr<FabricEndpoint>> open_libfabric(fi_info* description);

}  // namespace neuron::ccom

#endif
