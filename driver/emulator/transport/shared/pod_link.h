// SPDX-License-Identifier: Apache-2.0
// The wires between the nodes of an UltraServer: a folder with a socket of each node's daemon.
//
// Concepts: the daemon of node N listens at FOLDER/node-N and tells whoever connects which node it
// is, of how many, and its serial number, which it has drawn when it started. That is all that an
// election asks (service/pod.h). A node is believed if it is a daemon of the same user or of root;
// in a folder that others may write to no node is made. Callers: main(), before clients come.
// Threads: answers come from the event loop, questions from the election's thread. Owns: the socket
// and its path. Fails: join returns null with a sentence.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_POD_LINK_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_POD_LINK_H

#include <memory>
#include <string>

#include "driver/emulator/transport/control/daemon.h"

namespace neuron::transport {

class PodLink {
 public:
  // Node `node` of the pod in `folder`, whose kind and size are those of the daemon's profile. The
  // election begins.
  static std::unique_ptr<PodLink> join(const Daemon& daemon, const std::string& folder,
                                       unsigned node, std::string& error);
  virtual ~PodLink() = default;
};

}  // namespace neuron::transport

#endif
