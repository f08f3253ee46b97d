// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace neuron::transport {
namespace {

constexpr time_t kPatienceSeconds = 5;

}  // namespace

void FileList::clear() {
  for (const int file : files_) ::close(file);
  files_.clear();
}

SocketStream::SocketStream(int socket) : socket_(socket) {
  const timeval patience{kPatienceSeconds, 0};
  (void)setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  (void)setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

SocketStream::~SocketStream() { ::close(socket_); }

void SocketStream::close() { shutdown(socket_, SHUT_RDWR); }

bool SocketStream::peer_gone() const {
  pollfd watched{socket_, POLLRDHUP, 0};
  return poll(&watched, 1, 0) > 0 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Received SocketStream::receive(VfioUserMessage& message, std::string& why) {
  message.files.clear();
  message.body.clear();
  auto* const at = reinterpret_cast<std::byte*>(&message.header);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * vfio_user::kMaxMessageFds)];
  iovec part{at, sizeof message.header};
  msghdr envelope = {};
  envelope.msg_iov = &part;
  envelope.msg_iovlen = 1;
  envelope.msg_control = control;
  envelope.msg_controllen = sizeof control;
  ssize_t got;
  // Bounded: a guest may be idle for days; close() or its end makes this return.
  do {
    envelope.msg_controllen = sizeof control;
    got = recvmsg(socket_, &envelope, MSG_CMSG_CLOEXEC);
  } while (got < 0 && (errno == EINTR || errno == EAGAIN));
  if (got <= 0) return Received::kClosed;
  for (cmsghdr* c = CMSG_FIRSTHDR(&envelope); c != nullptr; c = CMSG_NXTHDR(&envelope, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int file;
      std::memcpy(&file, CMSG_DATA(c) + i * sizeof file, sizeof file);
      message.files.add(file);
    }
  }
  if ((envelope.msg_flags & MSG_CTRUNC) != 0) {
    why = "a message came with more than " + std::to_string(vfio_user::kMaxMessageFds) +
          " descriptors";
    return Received::kBroken;
  }
  const auto begun = static_cast<size_t>(got);
  if (begun < sizeof message.header) {
    const Received rest = read_rest({at + begun, sizeof message.header - begun}, why);
    if (rest != Received::kMessage) return rest;
  }
  const uint32_t size = message.header.size;
  if (size < sizeof message.header || size > vfio_user::kMaxMessage) {
    why = "message " + std::to_string(message.header.id) + " says that it has " +
          std::to_string(size) + " bytes; possible are " + std::to_string(sizeof message.header) +
          " to " + std::to_string(vfio_user::kMaxMessage);
    return Received::kBroken;
  }
  message.body.resize(size - sizeof message.header);
  return read_rest(message.body, why);
}

Received SocketStream::read_rest(std::span<std::byte> into, std::string& why) {
  while (!into.empty()) {
    const ssize_t got = recv(socket_, into.data(), into.size(), MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {
      why = "a message stops with " + std::to_string(into.size()) + " bytes missing for " +
            std::to_string(kPatienceSeconds) + " seconds";
      return Received::kBroken;
    }
    if (got <= 0) return Received::kClosed;
    into = into.subspan(static_cast<size_t>(got));
  }
  return Received::kMessage;
}

bool SocketStream::send(const vfio_user::Header& header, std::span<const std::byte> body,
                        int file) {
  iovec parts[2] = {{const_cast<vfio_user::Header*>(&header), sizeof header},
                    {const_cast<std::byte*>(body.data()), body.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr envelope = {};
  envelope.msg_iov = parts;
  envelope.msg_iovlen = 2;
  if (file >= 0) {
    envelope.msg_control = control;
    envelope.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&envelope);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &file, sizeof file);
  }
  size_t left = sizeof header + body.size();
  while (left != 0) {
    const ssize_t sent = sendmsg(socket_, &envelope, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    left -= static_cast<size_t>(sent);
    // The descriptor went with the first bytes; the rest of both parts follows.
    envelope.msg_control = nullptr;
    envelope.msg_controllen = 0;
    auto done = static_cast<size_t>(sent);
    for (iovec& part : parts) {
      const size_t of_this = done < part.iov_len ? done : part.iov_len;
      part.iov_base = static_cast<std::byte*>(part.iov_base) + of_this;
      part.iov_len -= of_this;
      done -= of_this;
    }
  }
  return true;
}

}  // namespace neuron::transport
