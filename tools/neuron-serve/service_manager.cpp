// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "driver/base/file_descriptor.h"

namespace neuron::serve {
namespace {

constexpr size_t kMostUnsaid = 4096;  // bytes; of a manager that reads nothing, the latest matter

}  // namespace

std::chrono::microseconds watchdog_period() {
  uint64_t period = 0;
  return std::chrono::microseconds(sd_watchdog_enabled(0, &period) > 0 ? period : 0);
}

bool ServiceManager::send(std::string_view words) {
  const char* variable = std::getenv("NOTIFY_SOCKET");
  const std::string_view path(variable != nullptr ? variable : "");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return true;
  std::copy(path.begin(), path.end(), address.sun_path);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const base::FileDescriptor socket(
      ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return ::sendto(socket.get(), words.data(), words.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())) >= 0 ||
         errno != EAGAIN;
}

void ServiceManager::tell(const std::string& words) {
  if (unsaid_.size() + words.size() > kMostUnsaid) unsaid_.clear();
  unsaid_ += (unsaid_.empty() ? "" : "\n") + words;
  retry();
}

void ServiceManager::tell_alive() {
  if (unsaid_.empty()) send("WATCHDOG=1");
}

void ServiceManager::retry() {
  if (!unsaid_.empty() && send(unsaid_)) unsaid_.clear();
}

int passed_socket(std::string& error) {
  const int count = sd_listen_fds(0);
  if (count <= 0) return -1;
  if (count != 1) {
    error = "the service manager passed " + std::to_string(count) +
            " sockets; give neuron-serve exactly one (ListenStream= once)";
    return -1;
  }
  if (sd_is_socket(SD_LISTEN_FDS_START, AF_UNSPEC, SOCK_STREAM, 1) <= 0) {
    error =
        "descriptor 3, passed by the service manager, is no listening stream socket; use "
        "ListenStream= with Accept=no";
    return -1;
  }
  return SD_LISTEN_FDS_START;
}

}  // namespace neuron::serve
