// SPDX-License-Identifier: Apache-2.0
//
// Addresses and URLs of the command line. Callers: Exporter. Thread-safe: no state.
// Fails: nothing returned and a sentence that says what was expected.
#ifndef TOOLS_NEURON_MONITOR_SERVE_ENDPOINT_H
#define TOOLS_NEURON_MONITOR_SERVE_ENDPOINT_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace neuron::monitor {

struct Endpoint {
  std::string host;  // empty: all addresses of this host
  uint16_t port = 0;
};

struct Url {
  Endpoint endpoint;
  std::string target;     // path and query
  std::string authority;  // as it was written, for the Host field
};

// "127.0.0.1:8000", "[::1]:8000", ":8000".
std::optional<Endpoint> parse_endpoint(std::string_view text, std::string& error);

// "http://collector:4318/v1/metrics"; the port is 4318 and the path /v1/metrics if there is none.
std::optional<Url> parse_url(std::string_view text, std::string& error);

}  // namespace neuron::monitor

#endif
