// SPDX-License-Identifier: Apache-2.0
// What the servers of one daemon share: the devices, and the thread that watches sockets.
//
// Callers: main() fills it in; each server (shared device, control, vfio-user) keeps a reference.
// `io` is run by main's thread alone: handlers must not block. Owned by main and outlives all
// servers.
#ifndef DRIVER_EMULATOR_TRANSPORT_CONTROL_DAEMON_H
#define DRIVER_EMULATOR_TRANSPORT_CONTROL_DAEMON_H

#include <string>

namespace boost::asio {
class io_context;
}

namespace neuron::service {
class Instance;
}

namespace neuron::transport {

struct Daemon {
  boost::asio::io_context& io;
  service::Instance& instance;
  std::string profile;      // as it was asked for
  std::string socket_path;  // of the shared device
  unsigned instances = 1;   // that the process serves: they share its files and mappings
};

}  // namespace neuron::transport

#endif
