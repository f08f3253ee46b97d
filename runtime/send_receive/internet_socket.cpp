// SPDX-License-Identifier: Apache-2.0
#include "runtime/send_receive/internet_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace neuron::runtime {
namespace {

// How long the system repeats what a host does not acknowledge before the host counts as gone.
constexpr unsigned kSilence_ms = 30'000;

void set(int socket, int level, int option, int value) {
  // A system without an option does without it.
  (void)::setsockopt(socket, level, option, &value, sizeof(value));
}

void configure(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilence_ms);
}

base::FileDescriptor make_socket(int& error) {
  base::FileDescriptor socket(base::above_standard_streams(
      ::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
  error = socket ? 0 : errno;
  // IPv4 comes over the same socket, as mapped addresses.
  if (socket) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  return socket;
}

sockaddr_in6 system_address(const HostAddress& address, uint16_t port) {
  sockaddr_in6 system = {};
  system.sin6_family = AF_INET6;
  system.sin6_port = htons(port);
  system.sin6_addr = address.bytes;
  system.sin6_scope_id = address.scope;
  return system;
}

}  // namespace

Result<HostAddress> HostAddress::parse(const std::string& text) {
  addrinfo hints = {};
  hints.ai_family = AF_INET6;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  HostAddress address;
  in_addr v4 = {};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    address.bytes.s6_addr[10] = address.bytes.s6_addr[11] = 0xFF;
    std::memcpy(&address.bytes.s6_addr[12], &v4, sizeof(v4));
    return address;
  }
  addrinfo* found = nullptr;
  if (::getaddrinfo(text.c_str(), nullptr, &hints, &found) != 0 || found == nullptr) {
    return fail(
        NRT_INVALID,
        "'{}' is no address of a host; expected one in numbers such as 10.0.0.1 or fe80::1%eth0",
        text);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  sockaddr_in6 system = {};
  std::memcpy(&system, found->ai_addr, std::min<size_t>(found->ai_addrlen, sizeof(system)));
  address.bytes = system.sin6_addr;
  address.scope = system.sin6_scope_id;
  return address;
}

std::string HostAddress::text() const {
  char out[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) {
    ::inet_ntop(AF_INET, &bytes.s6_addr[12], out, sizeof(out));
  } else {
    ::inet_ntop(AF_INET6, &bytes, out, sizeof(out));
  }
  return out;
}

bool HostAddress::same_as(const HostAddress& other) const {
  const bool scopes = scope == other.scope || scope == 0 || other.scope == 0;
  return std::memcmp(&bytes, &other.bytes, sizeof(bytes)) == 0 && scopes;
}

Result<base::FileDescriptor> listen_on(uint16_t port) {
  int error = 0;
  base::FileDescriptor socket = make_socket(error);
  if (socket) {
    set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    const sockaddr_in6 any = system_address({}, port);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) != 0 ||
        ::listen(socket.get(), SOMAXCONN) != 0) {
      error = errno;
    }
  }
  if (error == 0) return socket;
  return fail_with_errno(NRT_FAILURE, error,
                         "TCP port {} cannot be listened to; another process may have the same "
                         "core, or NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT names a port in use",
                         port);
}

base::FileDescriptor accept_from(int listener, HostAddress& from) {
  sockaddr_in6 system = {};
  socklen_t length = sizeof(system);
  base::FileDescriptor socket(base::above_standard_streams(::accept4(
      listener, reinterpret_cast<sockaddr*>(&system), &length, SOCK_NONBLOCK | SOCK_CLOEXEC)));
  if (!socket) return socket;
  configure(socket.get());
  from.bytes = system.sin6_addr;
  from.scope = system.sin6_scope_id;
  return socket;
}

base::FileDescriptor begin_connecting(const HostAddress& to, uint16_t port, int& error) {
  base::FileDescriptor socket = make_socket(error);
  if (!socket) return socket;
  configure(socket.get());
  const sockaddr_in6 system = system_address(to, port);
  const bool done =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&system), sizeof(system)) == 0;
  error = done ? 0 : errno;
  if (error != 0 && error != EINPROGRESS) socket.reset();
  return socket;
}

int outcome_of_connecting(int socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return error;
  sockaddr_in6 here = {}, there = {};
  socklen_t here_size = sizeof(here), there_size = sizeof(there);
  const bool known = ::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
                     ::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &there_size) == 0;
  const bool same = known && here.sin6_port == there.sin6_port &&
                    std::memcmp(&here.sin6_addr, &there.sin6_addr, sizeof(here.sin6_addr)) == 0;
  return same ? ECONNREFUSED : 0;
}

}  // namespace neuron::runtime
