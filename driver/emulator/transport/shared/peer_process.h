// SPDX-License-Identifier: Apache-2.0
// The process at the other end of a socket, and not one that has its number by now.
//
// Concepts: SO_PEERCRED is a number of the time of connect(2), and numbers are used again. A
// descriptor of the process (SO_PEERPIDFD, Linux 6.5) names it for good, and tells that it has
// ended; before, the process that has the number is opened. The time at which a process began tells
// it from an earlier one with its number. Callers: servers, for each connection. Owns the
// descriptor. Fails: null, with a sentence unless the process has merely ended.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_PEER_PROCESS_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_PEER_PROCESS_H

#include <optional>
#include <string>

#include "driver/base/file_descriptor.h"
#include "driver/emulator/service/client.h"

namespace neuron::transport {

struct PeerProcess {
  service::Client client;
  base::FileDescriptor
      process;  // readable once it has ended; none where the host has no such files

  // `ask_socket` false: as on a kernel that has no SO_PEERPIDFD.
  static std::optional<PeerProcess> of(int socket, std::string& why, bool ask_socket = true);
};

}  // namespace neuron::transport

#endif
