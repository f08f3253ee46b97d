// SPDX-License-Identifier: Apache-2.0
// A rank, or a stranger, whose every byte a test decides: what it says, when it stops, when it
// goes.
//
// Callers: tests, each puppet on one thread. Owns: its sockets. Nothing waits longer than
// kPatience; what does not come is nothing.
#ifndef TESTS_UNIT_CCOM_BOOTSTRAP_PUPPET_H
#define TESTS_UNIT_CCOM_BOOTSTRAP_PUPPET_H

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "ccom/bootstrap/handshake.h"
#include "ccom/bootstrap/host.h"
#include "ccom/bootstrap/network_bootstrap.h"
#include "driver/base/hmac_sha256.h"
#include "driver/base/random_bytes.h"
#include "tests/unit/ccom/bootstrap/free_address.h"

namespace neuron::ccom {

inline constexpr std::chrono::milliseconds kPatience{10000};

// As NetworkBootstrap derives it for a job without a secret.
inline Bytes key_of(const std::string& root) {
  const Digest key =
      base::hmac_sha256(bytes_of("root address " + root), bytes_of("libccom bootstrap "));
  const auto bytes = std::as_bytes(std::span(key));
  return {bytes.begin(), bytes.end()};
}

struct Frame {
  MessageType type = MessageType::kHello;
  Bytes body;
};

inline Bytes frame_of(MessageType type, const Bytes& body) {
  Bytes frame(FrameHeader::kBytes);
  encode(FrameHeader{static_cast<uint32_t>(body.size()), type}, frame.data());
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

// One connection.
class Wire {
 public:
  Wire() = default;
  explicit Wire(int socket) : socket_(socket) {}
  ~Wire() { hang_up(); }
  Wire(Wire&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Wire& operator=(Wire&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }

  // Tries until somebody listens there.
  static Wire to(const Address& address) {
    const SystemAddress system = system_address(address);
    const base::Deadline until = base::Deadline::after(kPatience);
    while (!until.expired()) {
      Wire wire(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(wire.socket_, system.get(), system.length) == 0) return wire;
      poll(nullptr, 0, 1);
    }
    return {};
  }

  bool open() const { return socket_ >= 0; }
  void hang_up() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }
  // False: the other side does not want it any more.
  bool say(const Bytes& bytes) const {
    return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  bool say(MessageType type, const Bytes& body) const { return say(frame_of(type, body)); }

  std::optional<Frame> hear() const {
    Bytes header;
    Frame frame;
    FrameHeader decoded;
    if (!take(FrameHeader::kBytes, header) || !decode(header, decoded) ||
        !take(decoded.length, frame.body)) {
      return std::nullopt;
    }
    frame.type = decoded.type;
    return frame;
  }
  // Whether the other side closes within `time`, whatever it says before.
  bool closes_within(std::chrono::milliseconds time) const {
    const base::Deadline until = base::Deadline::after(time);
    char scrap[256];
    while (!until.expired()) {
      pollfd wanted{socket_, POLLIN, 0};
      if (poll(&wanted, 1, 10) > 0 && recv(socket_, scrap, sizeof(scrap), 0) <= 0) return true;
    }
    return false;
  }

 private:
  bool take(size_t count, Bytes& into) const {
    into.resize(count);
    const base::Deadline until = base::Deadline::after(kPatience);
    for (size_t got = 0; got < count;) {
      pollfd wanted{socket_, POLLIN, 0};
      if (until.expired()) return false;
      if (poll(&wanted, 1, 10) <= 0) continue;
      const ssize_t more = recv(socket_, into.data() + got, count - got, 0);
      if (more <= 0) return false;
      got += static_cast<size_t>(more);
    }
    return true;
  }

  int socket_ = -1;
};

// What ranks of a test job are told; rank 0 listens at `root`.
inline JoinOptions options_of(Rank rank, uint32_t size, const std::string& root,
                              std::chrono::milliseconds time) {
  JoinOptions options;
  options.rank = rank;
  options.size = size;
  options.root = root;
  options.deadline = base::Deadline::after(time);
  return options;
}

}  // namespace neuron::ccom

#endif
