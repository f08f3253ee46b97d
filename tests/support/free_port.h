// SPDX-License-Identifier: Apache-2.0
// Ports for servers that a test or a benchmark is about to start.
// Callers: tests. Thread-safe: no state.
#ifndef TESTS_SUPPORT_FREE_PORT_H
#define TESTS_SUPPORT_FREE_PORT_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <random>

#include "driver/base/file_descriptor.h"

namespace neuron::test {

// The first of `count` neighbouring ports that are free now, on all addresses. They lie below those
// that the kernel hands out to whoever asks for any, so that no client of another test gets one
// before it is used. 0: there are none.
inline uint16_t free_port(unsigned count = 1) {
  constexpr unsigned kFirst = 10000, kLast = 32000, kTries = 1000;
  std::random_device random;
  for (unsigned n = 0; n < kTries; ++n) {
    const unsigned first = kFirst + random() % (kLast - kFirst);
    unsigned free = 0;
    for (; free < count; ++free) {
      const base::FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address = {};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_ANY);
      address.sin_port = htons(static_cast<uint16_t>(first + free));
      if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
        break;
      }
    }
    if (free == count) return static_cast<uint16_t>(first);
  }
  return 0;
}

}  // namespace neuron::test

#endif
