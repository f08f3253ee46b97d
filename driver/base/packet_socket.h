// SPDX-License-Identifier: Apache-2.0
// Messages over a SOCK_SEQPACKET socket, with descriptors beside them.
//
// Callers: both ends of a shared device. Several threads may send on one socket; one receives.
// Received descriptors belong to the caller. Never raises SIGPIPE. Fails: negative errno; -EPIPE
// when the peer is gone.
#ifndef DRIVER_BASE_PACKET_SOCKET_H
#define DRIVER_BASE_PACKET_SOCKET_H

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "driver/base/file_descriptor.h"

namespace neuron::base {

// Descriptors that one message may carry.
inline constexpr unsigned kPacketFiles = 4;
using PacketFiles = std::array<FileDescriptor, kPacketFiles>;

// Waits for events of poll(2). Returns those that came, or a negative errno: -ETIMEDOUT after
// `patience_ms`.
int await_socket(int socket, short events, int patience_ms);

// Sends the parts as one message, with descriptors. Waits at most `patience_ms` for room.
int send_packet(int socket, std::span<const iovec> parts, std::span<const int> files,
                int patience_ms);

// Receives one message of at most buffer.size() bytes. Returns its length, or 0 when the peer has
// closed. Its descriptors are put at the start of `files`. `flags` are those of recvmsg(2).
// -EMSGSIZE: the message was longer than the buffer, or had more than kPacketFiles descriptors.
// -EMFILE: this process may not open the descriptors; if `files_lost` is given, it becomes true and
// the call succeeds.
ssize_t receive_packet(int socket, std::span<std::byte> buffer, PacketFiles& files, int flags = 0,
                       bool* files_lost = nullptr);

// True if `fd` is a file in memory, whose reads and writes never wait.
bool is_memory_file(int fd);

}  // namespace neuron::base

#endif
