// SPDX-License-Identifier: Apache-2.0
// A connection to a rank across the network. network_port.h says how messages travel.
//
// Callers: the executor; NetworkPort passes in arrivals and completions. Threads: that of the port.
// Owns: the state of its channels. Fails: with the peer, the route, and the provider's error.
#ifndef CCOM_TRANSPORT_FABRIC_CONNECTION_H
#define CCOM_TRANSPORT_FABRIC_CONNECTION_H

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ccom/transport/fabric_tag.h"
#include "ccom/transport/network_port.h"

namespace neuron::ccom {

// One stream and channel of a connection, both directions.
struct FabricLane {
  struct Incoming {
    std::byte* place = nullptr;
    uint64_t bytes = 0;  // granted
    uint64_t got = 0;    // arrived
    uint32_t word = 0;   // hash of the sender's signature
    bool granted = false;
    bool arrived = false;
    bool truncated = false;                // the message was longer than its place
    FabricOperation* operation = nullptr;  // of a long message in flight
    std::vector<std::byte> stash;          // a short message ahead of its grant
  };

  FabricConnection* connection = nullptr;
  uint8_t stream = 0;
  uint16_t channel = 0;
  bool untold = false;  // is in NetworkPort::untold_

  uint64_t out_operation = 0;
  uint64_t out_base = 0;  // number of message 0 of the operation
  uint64_t out_next = 0;
  uint64_t out_granted = 0;  // by the peer, as far as known here
  uint64_t out_first = 0;    // of out_done
  std::deque<bool> out_done;

  uint64_t in_operation = 0;
  uint64_t in_base = 0;
  uint64_t in_granted = 0;
  uint64_t in_told = 0;
  uint64_t in_first = 0;  // of in
  std::deque<Incoming> in;
};

class FabricConnection final : public Connection {
 public:
  // `expected`: what messages of the peer show; `shown`: what those to it do.
  FabricConnection(NetworkPort& port, Rank peer, const PortPass& expected, const PortPass& shown)
      : port_(port), peer_(peer), expected_(expected), shown_(shown) {}

  Rank peer() const override { return peer_; }
  Outcome grant(const MessageId& id, std::byte* place, uint64_t bytes) override;
  Outcome send(const MessageId& id, const std::byte* source, uint64_t bytes,
               const Signature& signature) override;
  Outcome sent(const MessageId& id) override;
  Outcome arrived(const MessageId& id, Arrival& arrival) override;
  void consumed(const MessageId& id) override;
  Outcome progress() override { return port_.progress(); }
  bool by_reference() const override { return false; }
  const Error& failure() const override { return failure_; }
  const char* description() const override;

  const PortPass& expected() const { return expected_; }
  const PortPass& shown() const { return shown_; }

  // Called by NetworkPort: a message of the pool, or one that went straight to its place, has
  // arrived.
  void accept_grants(const FabricTag& tag);
  void accept_eager(const FabricTag& tag, uint32_t word, std::span<const std::byte> data);
  void received(FabricLane& lane, uint64_t number, const FabricCompletion& completion);
  void send_done(FabricLane& lane, uint64_t number);
  void broken(const char* doing, int error);
  void cancel_receives();
  // How far the peer has come with what was sent on a channel: grows with each message, grant and
  // end of a long message.
  uint64_t taken(uint32_t stream, uint32_t channel) const {
    const auto& lanes = lanes_[stream];
    if (channel >= lanes.size() || lanes[channel] == nullptr) return 0;
    const FabricLane& lane = *lanes[channel];
    const auto ended = std::count(lane.out_done.begin(), lane.out_done.end(), true);
    return lane.out_next + lane.out_granted + lane.out_first + static_cast<uint64_t>(ended);
  }
  // Whether messages were sent or expected.
  bool used() const;

 private:
  FabricLane* lane(uint32_t stream, uint32_t channel);
  FabricLane::Incoming* slot(FabricLane& lane, uint64_t number);
  uint64_t tag(FabricKind kind, const FabricLane& lane, uint64_t number) const;
  Outcome refuse(const char* rule);
  Outcome posted(int error, const char* doing);

  NetworkPort& port_;
  Rank peer_;
  const PortPass expected_, shown_;
  bool failed_ = false;
  Error failure_;
  mutable std::string description_;
  std::array<std::vector<std::unique_ptr<FabricLane>>, CCOM_MAX_STREAMS> lanes_;
};

}  // namespace neuron::ccom

#endif
