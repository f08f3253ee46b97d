// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/sd_notify.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace neuron::serve {
namespace {

constexpr int kFirstPassed = 3;

// A variable that is meant for this process, if it names one.
bool for_this_process(const char* variable) {
  const char* pid = std::getenv(variable);
  return pid == nullptr || std::strtoll(pid, nullptr, 10) == ::getpid();
}

}  // namespace

bool notify(const std::string& message) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (*path != '/' && *path != '@')) return false;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(path);
  if (length >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path, length);
  if (*path == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  const ssize_t sent = ::sendto(fd, message.data(), message.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), size);
  ::close(fd);
  return sent == static_cast<ssize_t>(message.size());
}

std::chrono::microseconds watchdog_period() {
  const char* period = std::getenv("WATCHDOG_USEC");
  if (period == nullptr || !for_this_process("WATCHDOG_PID")) return {};
  const long long value = std::strtoll(period, nullptr, 10);
  return std::chrono::microseconds(value > 0 ? value : 0);
}

int passed_socket(std::string& error) {
  const char* count = std::getenv("LISTEN_FDS");
  if (count == nullptr || !for_this_process("LISTEN_PID")) return -1;
  if (std::strcmp(count, "1") != 0) {
    error = std::string("the service manager passed ") + count +
            " sockets; give neuron-serve exactly one (ListenStream= once)";
    return -1;
  }
  int listening = 0, type = 0;
  socklen_t size = sizeof(listening);
  if (::getsockopt(kFirstPassed, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 ||
      ::getsockopt(kFirstPassed, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || listening == 0 ||
      type != SOCK_STREAM) {
    error =
        "descriptor 3, passed by the service manager, is no listening stream socket; use "
        "ListenStream= with Accept=no";
    return -1;
  }
  ::fcntl(kFirstPassed, F_SETFD, FD_CLOEXEC);
  return kFirstPassed;
}

}  // namespace neuron::serve
