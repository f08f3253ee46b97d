// SPDX-License-Identifier: Apache-2.0
#include "driver/base/packet_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "driver/base/thread_sanitizer.h"

namespace neuron::base {
namespace {

struct Control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kPacketFiles)];
};

}  // namespace

int await_socket(int socket, short events, int patience_ms) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(patience_ms);
  int rest = patience_ms;
  for (;;) {  // bounded: signals do not lengthen the time
    pollfd watched = {socket, events, 0};
    const int ready = ::poll(&watched, 1, rest);
    if (ready > 0) return watched.revents;
    if (ready == 0) return -ETIMEDOUT;
    if (errno != EINTR) return -errno;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    rest = static_cast<int>(std::max<int64_t>(left, 0));
  }
}

int send_packet(int socket, std::span<const iovec> parts, std::span<const int> files,
                int patience_ms) {
  msghdr header = {};
  header.msg_iov = const_cast<iovec*>(parts.data());
  header.msg_iovlen = parts.size();
  Control control = {};
  if (!files.empty()) {
    if (files.size() > kPacketFiles) return -EINVAL;
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * files.size());
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(sizeof(int) * files.size());
    std::memcpy(CMSG_DATA(message), files.data(), sizeof(int) * files.size());
  }
  for (;;) {  // bounded: a socket that has room takes the message
    hand_to_other_processes();
    if (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno == ECONNRESET ? -EPIPE : -errno;
    const int room = await_socket(socket, POLLOUT, patience_ms);
    if (room < 0) return room;
    if (room & (POLLERR | POLLHUP)) return -EPIPE;
  }
}

ssize_t receive_packet(int socket, std::span<std::byte> buffer, PacketFiles& files, int flags,
                       bool* files_lost) {
  iovec part = {buffer.data(), buffer.size()};
  Control control;
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof(control.bytes);
  ssize_t length = 0;
  do {
    length = ::recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return errno == ECONNRESET ? 0 : -errno;
  take_from_other_processes();
  size_t count = 0;
  for (cmsghdr* message = CMSG_FIRSTHDR(&header); message != nullptr;
       message = CMSG_NXTHDR(&header, message)) {
    if (message->cmsg_level != SOL_SOCKET || message->cmsg_type != SCM_RIGHTS) continue;
    const size_t found = (message->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < found; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(message) + i * sizeof(int), sizeof(int));
      FileDescriptor received(above_standard_streams(fd));
      if (count < files.size()) files[count++] = std::move(received);
    }
  }
  if ((header.msg_flags & MSG_TRUNC) != 0) return -EMSGSIZE;
  if ((header.msg_flags & MSG_CTRUNC) == 0) return length;
  // Too many for us, or one more than this process may open.
  if (count == files.size()) return -EMSGSIZE;
  if (files_lost == nullptr) return -EMFILE;
  *files_lost = true;
  return length;
}

bool is_memory_file(int fd) { return ::fcntl(fd, F_GET_SEALS) >= 0; }

}  // namespace neuron::base
