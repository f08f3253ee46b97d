// SPDX-License-Identifier: Apache-2.0
// A port for a server that a test or a benchmark is about to start.
// Callers: tests. Thread-safe: no state.
#ifndef TESTS_SUPPORT_FREE_PORT_H
#define TESTS_SUPPORT_FREE_PORT_H

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace neuron::test {

// A port of the loopback that is free now; another process may take it before it is used. 0: there
// is none.
inline uint16_t free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0) {
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  }
  ::close(listener);
  return ntohs(address.sin_port);
}

}  // namespace neuron::test

#endif
