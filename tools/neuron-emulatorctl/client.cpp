// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-emulatorctl/client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "driver/base/file_descriptor.h"

namespace neuron::emulatorctl {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;  // of a packet, in either direction
constexpr time_t kPatience_s = 30;              // with a daemon that does not answer

}  // namespace

std::string control_path(const std::string& socket) { return socket + ".control"; }

std::string path_of_environment() {
  const char* value = std::getenv("NEURON_EMULATOR");
  if (value == nullptr || std::strncmp(value, "unix:", 5) != 0) return "";
  return control_path(value + 5);
}

Outcome ask(const std::string& path, const control::Request& request, control::Response& response,
            std::string& error) {
  const auto nobody = [&](const std::string& what) {
    error = "the control channel at " + path + " " + what;
    return Outcome::kNoDaemon;
  };
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return nobody("has a path of over 107 characters");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const base::FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval patience = {kPatience_s, 0};
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const int room = static_cast<int>(kMostBytes);
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int reason = errno;
    return nobody(std::string("cannot be reached: ") + std::strerror(reason) +
                  (reason == ENOENT || reason == ECONNREFUSED
                       ? "; start neuron-emulatord, or name its socket with --socket"
                       : ""));
  }
  const std::string bytes = request.SerializeAsString();
  if (bytes.size() > kMostBytes ||
      ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    const int reason = bytes.size() > kMostBytes ? EMSGSIZE : errno;
    return nobody(std::string("takes no request of ") + std::to_string(bytes.size()) +
                  " bytes: " + std::strerror(reason));
  }
  std::string answer(kMostBytes, '\0');
  const ssize_t received = ::recv(socket.get(), answer.data(), answer.size(), 0);
  if (received < 0) {
    const int reason = errno;
    return nobody(reason == EAGAIN ? "has not answered for " + std::to_string(kPatience_s) + " s"
                                   : std::string("broke off: ") + std::strerror(reason));
  }
  if (received == 0) {
    return nobody("closed the connection; it answers only the daemon's own user and root");
  }
  if (!response.ParseFromArray(answer.data(), static_cast<int>(received))) {
    return nobody("answered with " + std::to_string(received) +
                  " bytes that are no response; is it another program's socket?");
  }
  if (response.error() == 0) return Outcome::kDone;
  error = response.message().empty() ? std::strerror(response.error()) : response.message();
  return Outcome::kRefused;
}

}  // namespace neuron::emulatorctl
