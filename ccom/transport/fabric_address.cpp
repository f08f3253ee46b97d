// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/fabric_address.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace neuron::ccom {

std::string address_towards(const std::string& root) {
  const size_t colon = root.rfind(':');
  if (colon == std::string::npos) {
    return "";
  }
  std::string host = root.substr(0, colon);
  sockaddr_in6 six{};
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(9);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(9);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  if (bracketed ? inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1
                : inet_pton(AF_INET, host.c_str(), &four.sin_addr) != 1) {
    return "";
  }
  // Connecting a datagram socket sends nothing; it only chooses the route.
  const int descriptor = socket(bracketed ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    return "";
  }
  std::array<char, INET6_ADDRSTRLEN> own{};
  socklen_t bytes = bracketed ? sizeof six : sizeof four;
  auto* address =
      bracketed ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&four);
  if (connect(descriptor, address, bytes) == 0 && getsockname(descriptor, address, &bytes) == 0) {
    inet_ntop(bracketed ? AF_INET6 : AF_INET,
              bracketed ? static_cast<void*>(&six.sin6_addr) : static_cast<void*>(&four.sin_addr),
              own.data(), own.size());
  }
  close(descriptor);
  return own.data();
}

}  // namespace neuron::ccom
