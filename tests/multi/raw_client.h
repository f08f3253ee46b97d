// SPDX-License-Identifier: Apache-2.0
// A client of the daemon whose every byte is the test's own.
//
// Callers: one thread. Owns its connection and the files that came with the last message.
// Deadlines: each message is waited for at most kPatienceMs.
#ifndef TESTS_MULTI_RAW_CLIENT_H
#define TESTS_MULTI_RAW_CLIENT_H

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "driver/base/packet_socket.h"
#include "driver/wire/wire.h"
#include "tests/support/daemon.h"

namespace neuron::multi {

inline constexpr int kPatienceMs = 10'000;

class Raw {
 public:
  explicit Raw(const test::Daemon& daemon) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    daemon.socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
    socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
        0) {
      socket_.reset();
    }
  }
  template <typename T>
  bool send(const T& message, std::span<const int> files = {}, int patience_ms = kPatienceMs) {
    const iovec part = {const_cast<T*>(&message), sizeof(message)};
    return base::send_packet(socket_.get(), {&part, 1}, files, patience_ms) == 0;
  }
  // Bytes of the next message; 0 when the daemon has closed the connection, -1 when it is silent.
  template <typename T>
  ssize_t receive(T& message) {
    pollfd readable = {socket_.get(), POLLIN, 0};
    if (::poll(&readable, 1, kPatienceMs) <= 0) return -1;
    const ssize_t length = base::receive_packet(socket_.get(), buffer_, files);
    if (length > 0) {
      std::memcpy(&message, buffer_.data(), std::min(sizeof(message), static_cast<size_t>(length)));
      behind.assign(reinterpret_cast<const char*>(buffer_.data()) + sizeof(message),
                    static_cast<size_t>(length) - std::min(sizeof(message), size_t(length)));
    }
    return length;
  }
  int32_t greet(uint16_t oldest = 1, uint16_t newest = 1, uint64_t features = wire::kFeatures) {
    auto hello = wire::message<wire::Hello>(wire::Kind::kHello, 1);
    hello.oldest_version = oldest;
    hello.newest_version = newest;
    hello.features = features;
    hello.purpose = wire::kPurposeOpen;
    hello.open_flags = O_RDWR;
    if (!send(hello) || receive(welcome) <= 0) return 1;
    return welcome.result;
  }

  wire::Welcome welcome{};
  base::PacketFiles files;
  std::string behind;  // what followed the struct

 private:
  base::FileDescriptor socket_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(wire::kMaxMessage);
};

}  // namespace neuron::multi

#endif
