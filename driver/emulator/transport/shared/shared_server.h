// SPDX-License-Identifier: Apache-2.0
// The socket of a shared device: accepts clients and serves each until it closes or dies.
//
// Concepts: one connection is one open device descriptor; it counts for the process that connected
// (PeerProcess). When it closes, everything that was obtained through it is freed. Callers: main().
// Owns: the listening descriptor, connections and the threads that run calls. Fails: start returns
// null with a sentence; a client that breaks the protocol loses only its own connection.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_SHARED_SERVER_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_SHARED_SERVER_H

#include <memory>
#include <string>

#include "driver/emulator/transport/control/daemon.h"

namespace neuron::transport {

class SharedServer {
 public:
  virtual ~SharedServer() = default;
  // Takes the listening SOCK_SEQPACKET descriptor over.
  static std::unique_ptr<SharedServer> start(const Daemon& daemon, int listener,
                                             std::string& error);
  // Connections that are open now.
  virtual unsigned connections() const = 0;
};

}  // namespace neuron::transport

#endif
