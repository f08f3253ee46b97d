// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/peer_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "driver/base/process_status.h"

// Of Linux 6.5, which the headers of the host may not know.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace neuron::transport {
namespace {

// Numbers of processes are below 2^22 (PID_MAX_LIMIT).
constexpr unsigned kPidBits = 22;
// Instead of a process that has no number here.
constexpr uint64_t kUnseen = ~uint64_t{0};

bool is_ready(int descriptor, short events) {
  pollfd polled = {descriptor, events, 0};
  return ::poll(&polled, 1, 0) > 0;
}

// 0 or an errno value; none at all where the host has no descriptors of processes.
int open_process(int socket, int32_t pid, bool ask_socket, base::FileDescriptor& process) {
  int found = -1;
  socklen_t size = sizeof(found);
  if (ask_socket && ::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &found, &size) == 0) {
    process.reset(found);
    return 0;
  }
  if (ask_socket && errno != ENOPROTOOPT) return errno;
  process.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return process || errno == ENOSYS ? 0 : errno;
}

}  // namespace

std::optional<PeerProcess> PeerProcess::of(int socket, std::string& why, bool ask_socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    why = std::string("who has connected cannot be found out: ") + std::strerror(errno);
    return std::nullopt;
  }
  PeerProcess found;
  found.client = {peer.pid, peer.uid, kUnseen};
  // One in a PID namespace that is not seen from here: who greets learns why it gets no device.
  if (peer.pid <= 0) return found;
  const int error = open_process(socket, peer.pid, ask_socket, found.process);
  if (error == ESRCH || error == EINVAL || error == ENODATA) return std::nullopt;
  if (error != 0) {
    why = "pid " + std::to_string(peer.pid) + " cannot be watched: " + std::strerror(error);
    return std::nullopt;
  }
  const uint64_t started =
      base::process_status(peer.pid).value_or(base::ProcessStatus{}).start_ticks;
  // What was read belongs to the process that is open, if that has not ended meanwhile.
  if (found.process ? is_ready(found.process.get(), POLLIN) : started == 0) return std::nullopt;
  // A process that was opened by its number may have it since a moment ago. Then the one that has
  // connected is gone, and nobody holds the other end unless it had children.
  if (is_ready(socket, POLLHUP)) return std::nullopt;
  found.client.process = started << kPidBits | static_cast<uint64_t>(peer.pid);
  return found;
}

}  // namespace neuron::transport
