// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what peers send across the network: messages of any tag, word and length meet a
// port whose rank grants, sends and consumes. Nothing may crash or write outside a granted place,
// and what is handed out as arrived has the size that was granted.
//
// The input is a list of actions of one byte each: 0 a message (8 bytes of tag, 4 of word, 1 of
// length in units of 64 bytes, then as much data as there is), 1 a grant, 2 a send, 3 a look at
// what arrived, 4 the next operation, 5 completions, 6 a report of a peer.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "ccom/transport/fabric_connection.h"
#include "ccom/transport/network_port.h"
#include "tests/unit/ccom/transport/scripted_endpoint.h"

namespace {

using namespace neuron::ccom;

constexpr Rank kRanks = 4;
constexpr uint64_t kPlace = 3 * NetworkPort::kEagerBytes;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  template <class T>
  T take() {
    T value{};
    const size_t bytes = std::min(sizeof value, size_);
    std::memcpy(&value, data_, bytes);
    skip(bytes);
    return value;
  }
  std::span<const std::byte> rest(size_t most) {
    const size_t bytes = std::min(most, size_);
    const std::span<const std::byte> result(reinterpret_cast<const std::byte*>(data_), bytes);
    skip(bytes);
    return result;
  }

 private:
  void skip(size_t bytes) {
    data_ += bytes;
    size_ -= bytes;
  }

  const uint8_t* data_;
  size_t size_;
};

[[noreturn]] void complain(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// The rank under attack, and what it does with peer 1 on channel 2 of stream 0.
class Victim {
 public:
  Victim() {
    auto endpoint = std::make_unique<ScriptedEndpoint>();
    script = endpoint.get();
    port = *NetworkPort::open(0, std::move(endpoint), std::vector<std::vector<std::byte>>(kRanks),
                              std::vector<PortKey>(kRanks));
    port->on_control = [this](Rank rank, const ControlMessage& message) {
      if (rank == 0 || rank >= kRanks) complain("a report of a rank that there is not");
      port->send_control(rank, message);
    };
    port->expect(signature);
  }

  void message(Input& input) {
    const auto tag = input.take<uint64_t>() & ~(uint64_t{1} << 63);
    const auto word = input.take<uint32_t>();
    std::vector<std::byte> data(input.take<uint8_t>() * 64u);
    const auto given = input.rest(data.size());
    std::copy(given.begin(), given.end(), data.begin());
    // An odd word is the right one: a fuzzer does not find hashes, nor the passes of senders. With
    // the second bit the message is a stranger's.
    const uint32_t shown = word % 2 != 0 ? port->expected_hash(0) : word;
    if ((word & 2) != 0) {
      script->deliver(tag, shown, data);
    } else {
      script->deliver_of_job(FabricTag::decode(tag), shown, data);
    }
  }
  void report(Input& input) {
    ControlMessage message;
    auto bytes = message.encode();
    const auto given = input.rest(bytes.size() - 4);  // behind the magic number
    std::copy(given.begin(), given.end(), bytes.begin() + 4);
    script->deliver_of_job(FabricTag{FabricKind::kControl, 1, 0, 0, 0, 0}, 0, bytes);
  }
  void grant(uint64_t bytes) {
    places.push_back(std::make_unique<std::byte[]>(kPlace));
    if (port->connection(1).grant(id(granted), places.back().get(), bytes) == Outcome::kDone) {
      sizes.push_back(bytes);
      ++granted;
    } else {
      places.pop_back();
    }
  }
  void send(uint64_t bytes) {
    if (port->connection(1).send(id(sent), source.data(), bytes, signature) == Outcome::kDone) {
      ++sent;
    }
  }
  void look() {
    Arrival arrival;
    if (consumed < granted &&
        port->connection(1).arrived(id(consumed), arrival) == Outcome::kDone) {
      if (arrival.bytes != sizes[consumed]) complain("a message has another size than its place");
      port->connection(1).consumed(id(consumed++));
    }
  }
  void next() {
    if (consumed == granted) {
      ++signature.operation;
      granted = consumed = sent = 0;
      sizes.clear();
      port->expect(signature);
    }
  }
  MessageId id(uint64_t number) const { return {0, 2, signature.operation, number}; }

  Signature signature;
  std::vector<std::byte> source = std::vector<std::byte>(kPlace);
  std::vector<std::unique_ptr<std::byte[]>> places;  // outlive the port, which may write to them
  std::vector<uint64_t> sizes;
  uint64_t granted = 0, sent = 0, consumed = 0;
  ScriptedEndpoint* script = nullptr;
  std::unique_ptr<NetworkPort> port;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Victim victim;
  for (int i = 0; i < 200 && !input.empty(); ++i) {
    const auto action = input.take<uint8_t>();
    switch (action % 7) {
      case 0:
        victim.message(input);
        break;
      case 1:
        victim.grant(action / 7 * 512u);
        break;
      case 2:
        victim.send(action / 7 * 512u);
        break;
      case 3:
        victim.look();
        break;
      case 4:
        victim.next();
        break;
      case 5:
        victim.port->progress();
        break;
      default:
        victim.report(input);
        break;
    }
  }
  victim.port->progress();
  victim.port->quiesce(neuron::base::Deadline::after(std::chrono::milliseconds(5)));
  return 0;
}
