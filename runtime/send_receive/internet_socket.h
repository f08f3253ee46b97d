// SPDX-License-Identifier: Apache-2.0
//
// TCP sockets between cores: addresses without names, nothing that waits.
// Callers: Connection, SendReceive. Thread-safe: pure. The caller owns the descriptors. Fails:
// NRT_INVALID for an address that is none, NRT_FAILURE with the system's reason.
#ifndef RUNTIME_SEND_RECEIVE_INTERNET_SOCKET_H
#define RUNTIME_SEND_RECEIVE_INTERNET_SOCKET_H

#include <netinet/in.h>

#include <string>

#include "driver/base/file_descriptor.h"
#include "runtime/base/error.h"

namespace neuron::runtime {

// An address of a host as IPv6 has it; one of IPv4 is mapped into that.
struct HostAddress {
  in6_addr bytes = {};
  uint32_t scope = 0;

  // "10.0.0.1", "fe80::1%eth0". Names are refused: both sides must mean the same address.
  static Result<HostAddress> parse(const std::string& text);
  std::string text() const;
  // Without a scope, an address means that of any.
  bool same_as(const HostAddress& other) const;
};

// Accepts connections to any address of this host.
Result<base::FileDescriptor> listen_on(uint16_t port);
// A connection that somebody asked for, and from where; without one, a descriptor that is none.
base::FileDescriptor accept_from(int listener, HostAddress& from);
// Begins to connect. 0 or an errno in `error`: EINPROGRESS while it is under way.
base::FileDescriptor begin_connecting(const HostAddress& to, uint16_t port, int& error);
// The outcome of a connection that was begun: 0, or an errno. ECONNREFUSED also for one that has
// met itself: where nobody listens to a port of this host, the system may give a connection to it
// that same port.
int outcome_of_connecting(int socket);

}  // namespace neuron::runtime

#endif
