// SPDX-License-Identifier: Apache-2.0
// The connection of this rank with one other: ordered messages on channels, with credits.
//
// Concepts: messages of one direction and channel are numbered from 0 within a collective
// (`operation` numbers the collectives of a stream and goes with each message). A receiver grants a
// place for message n; a sender may then send it. Shared memory needs no grants and delivers data
// in place. Nothing here blocks: a call that cannot be done now returns kNotYet, and the executor
// calls progress() until it can. Threads: the thread that drives the executor; a connection with a
// thread of its own (proxy) synchronises inside. Fails: Outcome::kFailed with the sentence in
// failure().
#ifndef CCOM_TRANSPORT_CONNECTION_H
#define CCOM_TRANSPORT_CONNECTION_H

#include <cstddef>
#include <cstdint>

#include "ccom/base/error.h"
#include "ccom/request/signature.h"
#include "ccom/schedule/step.h"
#include "driver/base/deadline.h"

namespace neuron::ccom {

enum class Outcome : uint8_t { kDone, kNotYet, kFailed };

struct MessageId {
  uint8_t stream = 0;
  uint16_t channel = 0;
  uint64_t operation = 0;
  uint64_t number = 0;  // of this direction and channel, from 0 in each operation
};

struct Arrival {
  const std::byte* data = nullptr;  // the granted place, or its place in the peer's memory
  uint64_t bytes = 0;
  const Signature* signature = nullptr;  // of the sender; valid until consumed()
};

class Connection {
 public:
  virtual ~Connection() = default;

  virtual Rank peer() const = 0;
  // Receiver: `place` may be written from now on. Null: the connection provides the place.
  virtual Outcome grant(const MessageId& id, std::byte* place, uint64_t bytes) = 0;
  // kNotYet without credit. The source must not change until sent() returns kDone.
  virtual Outcome send(const MessageId& id, const std::byte* source, uint64_t bytes,
                       const Signature& signature) = 0;
  virtual Outcome sent(const MessageId& id) = 0;
  virtual Outcome arrived(const MessageId& id, Arrival& arrival) = 0;
  // The receiver has used the message: its place, or the peer's memory, is free again.
  virtual void consumed(const MessageId& id) = 0;
  // The message is not the expected one: the receiver has not read it and never will.
  virtual void declined(const MessageId&) {}
  virtual Outcome progress() = 0;
  // True: arrival.data points into the sender's memory, and grants are not needed.
  virtual bool by_reference() const = 0;
  // After a failure: returns when the peer has stopped reading this rank's memory, at the deadline
  // at the latest. Messages that the peer has not taken by then fail on its side.
  virtual void withdraw(base::Deadline) {}
  virtual const Error& failure() const = 0;
  // For sentences: "shared memory", "tcp;ofi_rxm 10.0.0.1 -> 10.0.0.2".
  virtual const char* description() const = 0;
};

}  // namespace neuron::ccom

#endif
