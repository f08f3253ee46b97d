// SPDX-License-Identifier: Apache-2.0
//
// The UltraServer that a device's host is a node of, if its chips reach those of the other nodes.
//
// The driver tells the result of the nodes' election, in the mode that is set. Nodes of emulated
// UltraServers are joined where one daemon serves them all; daemons that serve a node each only
// elect. Callers: World, sentences of faults. Thread-safe: a function. Cannot fail: whoever does
// not tell is on its own, and its ranks meet those of other hosts over the network.
#ifndef RUNTIME_COLLECTIVES_ULTRA_SERVER_H
#define RUNTIME_COLLECTIVES_ULTRA_SERVER_H

#include <cstdint>
#include <optional>
#include <string>

namespace neuron::runtime {

constexpr uint32_t kMostNodes = 4;  // of an UltraServer, as many as an address names

struct UltraServerPlace {
  uint64_t id = 0;  // the same on all nodes
  uint32_t node = 0;
};

// `emulator`: NEURON_EMULATOR.
std::optional<UltraServerPlace> ultra_server_of(int device, const std::string& emulator);

}  // namespace neuron::runtime

#endif
