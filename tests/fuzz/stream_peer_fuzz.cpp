// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what a rank that has shown its token says on a connection of a StreamEndpoint.
// Nothing may crash, every operation completes at most once, and nothing touches the memory of one
// that has completed: it is freed at once, where the address sanitizer sees it.
//
// The input is a list of actions of one byte each: 0 a header (kind from 1 byte, then tag, length
// and number of 1, 4 and 1 bytes), 1 bytes (1 of length, then they), 2 a receive (1 of tag, 4 of
// length), 3 a cancel (1: which), 4 a look, 5 a send (4 of length), 6 many bytes (2 of length), 7
// the token again.
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "ccom/transport/stream_endpoint.h"
#include "ccom/transport/stream_link.h"
#include "driver/base/file_descriptor.h"

namespace {

using namespace neuron::ccom;

constexpr uint32_t kMostBytes = 200 << 10;

struct Input {
  const uint8_t* data;
  size_t size;
  template <class T>
  T take() {
    T value{};
    const size_t bytes = std::min(sizeof value, size);
    if (bytes != 0) std::memcpy(&value, data, bytes);
    data += bytes;
    size -= bytes;
    return value;
  }
};

struct Posted {
  FabricOperation operation;
  std::unique_ptr<std::byte[]> memory;
};

class Victim {
 public:
  Victim() {
    auto self = open_stream("127.0.0.1"), other = open_stream("127.0.0.1");
    if (!self || !other) std::abort();
    endpoint_ = std::move(*self);
    const auto address = endpoint_->address();
    if (!endpoint_->introduce({address, (*other)->address()})) std::abort();
    token_.assign(address.end() - 16, address.end());
    const std::string route = endpoint_->route(0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(route.substr(route.find(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // Leaves no port in the state of waiting behind.
    const linger none{1, 0};
    ::setsockopt(peer_.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    if (::connect(peer_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) std::abort();
    hello();
  }
  ~Victim() {
    peer_.reset();
    look();
    endpoint_->close();
  }

  void hello() {
    header({StreamKind::kHello, 1, 0, 16, 0});
    say(token_.data(), token_.size());
  }
  void header(const StreamHeader& header) { say(&header, sizeof header); }
  void say(const void* data, size_t bytes) {
    if (bytes != 0) ::send(peer_.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void receive(uint64_t tag, uint32_t bytes) {
    Posted& posted = make(bytes);
    if (endpoint_->receive(1, posted.memory.get(), bytes, nullptr, tag & 15, tag & 16 ? 1 : 0,
                           posted.operation) != 0) {
      posted_.erase(&posted.operation);
    }
  }
  void send(uint32_t bytes) {
    Posted& posted = make(bytes);
    if (endpoint_->send(1, posted.memory.get(), bytes, nullptr, 1, 2, posted.operation) != 0) {
      posted_.erase(&posted.operation);
    }
  }
  void cancel(size_t which) {
    if (which < posted_.size()) {
      endpoint_->cancel(
          std::next(posted_.begin(), static_cast<ptrdiff_t>(which))->second->operation);
    }
  }
  void look() {
    std::array<FabricCompletion, 4> completions;
    for (int round = 0; round < 3; ++round) {
      const int count = endpoint_->poll(completions);
      for (int i = 0; i < count; ++i) {
        if (posted_.erase(completions[static_cast<size_t>(i)].operation) != 1) {
          std::fprintf(stderr, "a completion of nothing that is under way\n");
          std::abort();
        }
      }
    }
  }

 private:
  Posted& make(uint32_t bytes) {
    auto posted = std::make_unique<Posted>();
    posted->memory = std::make_unique<std::byte[]>(bytes);
    Posted& made = *posted;
    posted_[&made.operation] = std::move(posted);
    return made;
  }

  neuron::base::FileDescriptor peer_;
  std::vector<std::byte> token_;
  std::map<FabricOperation*, std::unique_ptr<Posted>> posted_;
  std::unique_ptr<FabricEndpoint> endpoint_;  // ends before the memory of its operations
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::byte> kMany(65536);
  Input input{data, size};
  Victim victim;
  for (int actions = 0; input.size != 0 && actions < 200; ++actions) {
    switch (input.take<uint8_t>() % 8) {
      case 0: {
        const auto kind = input.take<uint8_t>();
        StreamHeader header;
        // Small numbers are the kinds behind a hello.
        header.kind = static_cast<StreamKind>(static_cast<uint32_t>(StreamKind::kHello) + kind);
        header.tag = input.take<uint8_t>() & 15;
        header.bytes = input.take<uint32_t>();
        header.id = input.take<uint8_t>();
        victim.header(header);
        break;
      }
      case 1: {
        const size_t bytes = std::min<size_t>(input.take<uint8_t>(), input.size);
        victim.say(input.data, bytes);
        input.data += bytes;
        input.size -= bytes;
        break;
      }
      case 2: {
        const auto tag = input.take<uint8_t>();
        victim.receive(tag, input.take<uint32_t>() % kMostBytes);
        break;
      }
      case 3:
        victim.cancel(input.take<uint8_t>());
        break;
      case 4:
        victim.look();
        break;
      case 5:
        victim.send(input.take<uint32_t>() % kMostBytes);
        break;
      case 6:
        victim.say(kMany.data(), input.take<uint16_t>());
        break;
      default:
        victim.hello();
        break;
    }
  }
  victim.look();
  return 0;
}
