// SPDX-License-Identifier: Apache-2.0
// One TCP connection of a StreamEndpoint: messages with a header in front, in both directions.
//
// Concepts: what can be sent at once goes to the kernel in one call with its header; the rest
// waits in a queue until the socket has room. Payload is received straight into the place that the
// endpoint names when the header is here; without a place, or beyond its end, it is dropped. Short
// messages come through a buffer, many with one call. Callers: StreamEndpoint. Threads: one at a
// time. Owns: the socket. Fails: an errno value, after which the connection carries nothing more.
#ifndef CCOM_TRANSPORT_STREAM_LINK_H
#define CCOM_TRANSPORT_STREAM_LINK_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "ccom/transport/fabric_endpoint.h"
#include "driver/base/file_descriptor.h"

namespace neuron::ccom {

enum class StreamKind : uint32_t {
  kHello = 0x6d6f6363,  // the first of a connection: who sends, with the receiver's token behind it
  kWhole,               // a message
  kOffer,               // a long message, which waits for kGo
  kGo,                  // the receiver has a place for offer `id`
  kRest,                // the payload of offer `id`
};

struct StreamHeader {
  StreamKind kind = StreamKind::kWhole;
  uint32_t word = 0;   // kHello: the rank that has connected
  uint64_t tag = 0;    // kWhole, kOffer
  uint64_t bytes = 0;  // of the payload; kOffer: of the message
  uint64_t id = 0;     // kOffer, kGo, kRest
  // Whether payload follows.
  uint64_t payload() const {
    return kind == StreamKind::kOffer || kind == StreamKind::kGo ? 0 : bytes;
  }
};
static_assert(sizeof(StreamHeader) == 32);

class StreamLink {
 public:
  static constexpr Rank kNobody = ~Rank{0};

  // What a connection asks and tells its endpoint while it reads and writes.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The place for a message's payload, which may be shorter. False: the peer breaks the rules.
    virtual bool begins(StreamLink& link, const StreamHeader& header,
                        std::span<std::byte>& place) = 0;
    virtual bool ends(StreamLink& link, const StreamHeader& header) = 0;
    virtual void sent(FabricOperation& operation, int error) = 0;
  };

  StreamLink(Owner& owner, base::FileDescriptor socket, bool connecting)
      : owner_(owner), socket_(std::move(socket)), connecting_(connecting) {}

  int socket() const { return socket_.get(); }
  // Sends header and payload. `operation` ends in Owner::sent, perhaps before this returns; null:
  // the payload is copied if it cannot be sent now. `waits`: for the next write().
  void send(const StreamHeader& header, std::span<const std::byte> payload,
            FabricOperation* operation, bool waits = false);
  // The socket has room, or has been connected. Returns 0 or the errno value that ends it.
  int write();
  // Takes what has come. 0, or the errno value that ends the connection. ESHUTDOWN: the peer has
  // closed it behind a whole message; ECONNRESET: within one.
  int read();
  // The rest of the payload that is being received is dropped.
  void drop_payload() { place_ = {}; }
  // Ends every operation that waits with `error`.
  void fail(int error);
  // Of one that will be closed: sends what waits, and says that no more comes once the peer's host
  // has it all. True if there is nothing more to do.
  bool finish();

  // Whether the peer's host has all that was sent, or never will.
  bool has_arrived() const;

  bool connecting() const { return connecting_; }
  bool wants_to_write() const { return connecting_ || !queue_.empty(); }
  uint64_t copied_bytes() const { return copied_; }

  Rank peer = kNobody;                // once it has said hello, or since this side has connected
  bool writing = false;               // the endpoint waits for room
  bool broken = false;                // failed; the endpoint will drop it
  bool finished = false;              // by finish()
  int unwritable = 0;                 // why nothing more can be sent, while there is more to read
  uint64_t last_offer = 0;            // of the peer
  std::array<std::byte, 16> token{};  // that a hello shows
  // The receive of the whole message that is on its way, and the bytes of its place.
  FabricOperation* taker = nullptr;
  uint64_t taker_bytes = 0;

 private:
  struct Waiting {
    StreamHeader header;
    std::span<const std::byte> payload;
    std::vector<std::byte> copy;
    FabricOperation* operation = nullptr;
    uint64_t done = 0;  // bytes of header and payload
  };

  int parse();

  Owner& owner_;
  base::FileDescriptor socket_;
  bool connecting_;
  std::deque<Waiting> queue_;
  uint64_t copied_ = 0;

  std::vector<std::byte> buffer_;  // what has come and has not been taken: begin_ to end_
  size_t begin_ = 0, end_ = 0;
  StreamHeader header_;         // of the message that is being received
  uint64_t left_ = 0;           // of its payload
  std::span<std::byte> place_;  // what is left of its place
};

}  // namespace neuron::ccom

#endif
