// SPDX-License-Identifier: Apache-2.0
// Both sides of a connection prove that they know the job's secret, by an HMAC of each other's
// nonces.
//
// Concepts: the side that accepted proves first, so that a rank with another secret finds out at
// once and reports it. A Door accepts connections and admits those that prove the secret. At most a
// fixed number of strangers wait at a time. Each may send only a few bytes and has limited time,
// which is shorter while the door is full. Threads: the loop's. Owns: the listening socket and the
// strangers' connections. Fails: prove() with CCOM_REFUSED or CCOM_TIMEOUT; a door counts the
// connections that it refused.
#ifndef CCOM_BOOTSTRAP_HANDSHAKE_H
#define CCOM_BOOTSTRAP_HANDSHAKE_H

#include <functional>
#include <memory>
#include <string>

#include "ccom/bootstrap/loop.h"

namespace neuron::ccom {

inline constexpr uint32_t kMostStrangers = 256;
inline constexpr std::chrono::milliseconds kHandshakeTime{5000};
// The time of a stranger while the door is full. A backlog of 4,096 silent connections is then
// refused in four seconds, before a rank behind them gives up its own connection (kHandshakeTime).
inline constexpr std::chrono::milliseconds kCrowdedTime{250};

// Called by the side that connected. `done` gets no error, or the reason; a refused connection is
// closed.
void prove(Loop& loop, LinkPointer link, const Bytes& key, std::chrono::milliseconds time,
           std::function<void(const Error* error)> done);

class Door {
 public:
  // Takes ownership of the listening socket.
  Door(Loop& loop, int listener, Bytes key, std::function<void(LinkPointer)> admitted);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  uint64_t refused() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

Digest server_proof(const Bytes& key, const Digest& client, const Digest& server);
Digest client_proof(const Bytes& key, const Digest& client, const Digest& server);

}  // namespace neuron::ccom

#endif
