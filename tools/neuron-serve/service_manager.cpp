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

namespace neuron::serve {
namespace {

constexpr size_t kMostStatus = 1024;  // bytes; systemd ignores a message of more than 4096

// Whether the manager may have room, or this process a descriptor, a little later.
bool passes(int error) {
  return error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EMFILE ||
         error == ENFILE;
}

}  // namespace

std::chrono::microseconds watchdog_period() {
  uint64_t period = 0;
  return std::chrono::microseconds(sd_watchdog_enabled(0, &period) > 0 ? period : 0);
}

std::string ServiceManager::untold() const {
  std::string words;
  const auto add = [&](const std::string& line) { words += (words.empty() ? "" : "\n") + line; };
  if (ready_) add("READY=1");
  if (stopping_) add("STOPPING=1");
  if (!status_.empty()) add("STATUS=" + status_);
  if (alive_) add("WATCHDOG=1");
  return words;
}

bool ServiceManager::send(std::string_view words) {
  const char* variable = std::getenv("NOTIFY_SOCKET");
  const std::string_view path(variable != nullptr ? variable : "");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return true;
  std::copy(path.begin(), path.end(), address.sun_path);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  if (socket_.get() < 0) {
    socket_ = base::FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket_.get() < 0) return !passes(errno);
  }
  return ::sendto(socket_.get(), words.data(), words.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())) >= 0 ||
         !passes(errno);
}

void ServiceManager::ready() {
  ready_ = true;
  retry();
}

void ServiceManager::stopping() {
  stopping_ = true;
  ready_ = false;  // whoever stops is not ready, although nobody could be told that it was
  retry();
}

void ServiceManager::status(const std::string& what) {
  status_ = what.substr(0, kMostStatus);
  std::replace(status_.begin(), status_.end(), '\n', ' ');
  retry();
}

void ServiceManager::alive() {
  alive_ = true;
  retry();
}

void ServiceManager::retry() {
  const std::string words = untold();
  if (words.empty() || !send(words)) return;
  ready_ = stopping_ = alive_ = false;
  status_.clear();
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
