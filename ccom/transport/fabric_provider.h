// SPDX-License-Identifier: Apache-2.0
// Which provider a job uses, libfabric's or this library's own ("stream"), and the endpoint over
// it.
//
// Concepts: a preference is a list of names with commas between them ("efa,tcp;ofi_rxm"). "tcp" is
// short for "tcp;ofi_rxm", and "rough+NAME" puts RoughEndpoint over one. Without a preference the
// providers fit for production are tried in turn, but never sockets or udp, which are very slow. A
// provider is fit if it has reliable tagged messages, 63 bits of tag and 32 bits of data beside
// each message. Callers: make_network_executor, tests. Thread-safe: functions of their arguments.
// Fails: CCOM_UNSUPPORTED, with the requested providers and those of this host.
#ifndef CCOM_TRANSPORT_FABRIC_PROVIDER_H
#define CCOM_TRANSPORT_FABRIC_PROVIDER_H

#include <memory>
#include <string>
#include <vector>

#include "ccom/transport/fabric_endpoint.h"

namespace neuron::ccom {

// Providers of the preference ("": the default) that this host has, in that order. `local_address`:
// that of the interface to use, "" for any.
Result<std::vector<std::string>> offered_providers(const std::string& preference,
                                                   const std::string& local_address);

Result<std::unique_ptr<FabricEndpoint>> open_provider(const std::string& provider,
                                                      const std::string& local_address);

}  // namespace neuron::ccom

#endif
