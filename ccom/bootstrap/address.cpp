// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace neuron::ccom {
namespace {

Error bad_address(const std::string& text, const char* why) {
  return fail(CCOM_INVALID,
              "the root address \"{}\" {}; expected ADDRESS:PORT with the IPv4 address of rank 0's "
              "host, or [ADDRESS]:PORT with its IPv6 address (NEURON_RT_ROOT_COMM_ID)",
              text, why);
}

}  // namespace

Result<Address> parse_address(const std::string& text) {
  if (text.empty()) {
    return bad_address(text, "is empty");
  }
  Address address;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return bad_address(text, "has no port");
  }
  const std::string port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port == 0) {
    return bad_address(text, "has no port from 1 to 65535 behind its last colon");
  }
  std::string host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    const size_t percent = host.find('%');
    if (percent != std::string::npos) {
      address.scope = if_nametoindex(host.c_str() + percent + 1);
      host.resize(percent);
      if (address.scope == 0) {
        return bad_address(text, "names an interface that this host does not have");
      }
    }
    address.v6 = true;
    if (inet_pton(AF_INET6, host.c_str(), address.bytes.data()) != 1) {
      return bad_address(text, "has no IPv6 address in its brackets");
    }
    return address;
  }
  if (inet_pton(AF_INET, host.c_str(), address.bytes.data()) != 1) {
    return bad_address(text, host.find(':') != std::string::npos
                                 ? "has an IPv6 address without brackets"
                                 : "begins with no address; names are not looked up");
  }
  return address;
}

bool is_loopback(const Address& address) {
  if (!address.v6) {
    return address.bytes[0] == IN_LOOPBACKNET;
  }
  in6_addr bytes;
  std::memcpy(&bytes, address.bytes.data(), sizeof(bytes));
  return IN6_IS_ADDR_LOOPBACK(&bytes) ||
         (IN6_IS_ADDR_V4MAPPED(&bytes) && bytes.s6_addr[12] == IN_LOOPBACKNET);
}

std::string text_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.v6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof(text));
  return address.v6 ? format("[{}]:{}", text, address.port) : format("{}:{}", text, address.port);
}

SystemAddress system_address(const Address& address) {
  SystemAddress result;
  if (address.v6) {
    sockaddr_in6 system{};
    system.sin6_family = AF_INET6;
    system.sin6_port = htons(address.port);
    system.sin6_scope_id = address.scope;
    std::memcpy(&system.sin6_addr, address.bytes.data(), 16);
    std::memcpy(result.bytes.data(), &system, sizeof(system));
    result.length = sizeof(system);
  } else {
    sockaddr_in system{};
    system.sin_family = AF_INET;
    system.sin_port = htons(address.port);
    std::memcpy(&system.sin_addr, address.bytes.data(), 4);
    std::memcpy(result.bytes.data(), &system, sizeof(system));
    result.length = sizeof(system);
  }
  return result;
}

Address address_of(const SystemAddress& system) {
  Address address;
  address.v6 = system.get()->sa_family == AF_INET6;
  if (address.v6) {
    sockaddr_in6 from{};
    std::memcpy(&from, system.bytes.data(), sizeof(from));
    address.port = ntohs(from.sin6_port);
    address.scope = from.sin6_scope_id;
    std::memcpy(address.bytes.data(), &from.sin6_addr, 16);
  } else {
    sockaddr_in from{};
    std::memcpy(&from, system.bytes.data(), sizeof(from));
    address.port = ntohs(from.sin_port);
    std::memcpy(address.bytes.data(), &from.sin_addr, 4);
  }
  return address;
}

Result<int> open_listener(Address& address, const std::string& purpose) {
  const int listener = socket(address.v6 ? AF_INET6 : AF_INET,
                              SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (listener < 0) {
    return system_error(errno, format("{}: cannot make a socket", purpose));
  }
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  SystemAddress system = system_address(address);
  if (bind(listener, system.get(), system.length) != 0 || listen(listener, SOMAXCONN) != 0) {
    const int error = errno;
    close(listener);
    const char* hint = error == EADDRINUSE ? " (another job or program has it: choose another port)"
                       : error == EADDRNOTAVAIL
                           ? " (rank 0 must run on the host that has this address)"
                           : "";
    Error failure =
        system_error(error, format("{}: cannot listen at {}{}", purpose, text_of(address), hint));
    if (error == EADDRINUSE || error == EADDRNOTAVAIL) {
      failure.status = CCOM_INVALID;
    }
    return failure;
  }
  system.length = system.bytes.size();
  if (getsockname(listener, system.get(), &system.length) == 0) {
    address = address_of(system);
  }
  return listener;
}

}  // namespace neuron::ccom
