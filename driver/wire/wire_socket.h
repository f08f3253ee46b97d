// SPDX-License-Identifier: Apache-2.0
// Messages over a SOCK_SEQPACKET socket, with descriptors beside them.
//
// Callers: both ends of a shared device; several threads may send on one socket, one receives.
// Owns: nothing; received descriptors are FileDescriptors of the caller. Never raises SIGPIPE.
// Fails: negative errno; -EPIPE when the peer is gone.
#ifndef DRIVER_WIRE_WIRE_SOCKET_H
#define DRIVER_WIRE_WIRE_SOCKET_H

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "driver/wire/wire.h"

namespace neuron::wire {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~FileDescriptor() { reset(); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The same file behind a number above those of the standard streams: a process may have been
// started without them, and what it then prints must not land in a socket or in device memory.
FileDescriptor off_standard_streams(int fd);

using Files = std::array<FileDescriptor, kMaxFiles>;

// Waits for events of poll(2): those that came, or a negative errno, -ETIMEDOUT after
// `patience_ms`.
int await(int socket, short events, int patience_ms);

// Sends the parts as one message, with descriptors. Waits at most `patience_ms` for room.
int send(int socket, std::span<const iovec> parts, std::span<const int> files, int patience_ms);

// One message, at most buffer.size() bytes: its length; 0 when the peer has closed. Descriptors
// that came along are in `files` from its beginning. `flags`: of recvmsg(2).
// A message that was cut, or came with more descriptors than any does, is -EMSGSIZE; -EMFILE if
// this process may not open the descriptors that came, unless `files_lost` is given to be told so.
ssize_t receive(int socket, std::span<std::byte> buffer, Files& files, int flags = 0,
                bool* files_lost = nullptr);

// True if `fd` is a file in memory, whose reads and writes never wait.
bool is_memory_file(int fd);

}  // namespace neuron::wire

#endif
