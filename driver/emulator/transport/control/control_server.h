// SPDX-License-Identifier: Apache-2.0
// The control channel's socket: accepts operators and answers their requests in turn.
//
// Concepts: the server has an event loop and a thread of its own: a reset may take a second, which
// must not delay clients of the devices. Only the daemon's own user, and root, are answered
// (SO_PEERCRED). Callers: main() starts and destroys it. Owns: the listening descriptor, the
// connections, the thread. Fails: start returns null with a sentence; a client that breaks the
// protocol loses its connection.
#ifndef DRIVER_EMULATOR_TRANSPORT_CONTROL_CONTROL_SERVER_H
#define DRIVER_EMULATOR_TRANSPORT_CONTROL_CONTROL_SERVER_H

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "driver/emulator/transport/control/daemon.h"

namespace neuron::transport {

class ControlServer {
 public:
  // Takes the listening SOCK_SEQPACKET descriptor over. `connections` counts the clients of the
  // shared device and is called in the server's thread.
  static std::unique_ptr<ControlServer> start(const Daemon& daemon, int listener,
                                              std::function<unsigned()> connections,
                                              std::string& error);
  // The same with a function that answers packets; it is called in the server's thread.
  static std::unique_ptr<ControlServer> start(int listener,
                                              std::function<std::string(std::string_view)> answer,
                                              std::string& error);
  virtual ~ControlServer() = default;
};

// Where the control channel of a shared device at `socket_path` is.
std::string control_path(const std::string& socket_path);

}  // namespace neuron::transport

#endif
