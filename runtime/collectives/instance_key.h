// SPDX-License-Identifier: Apache-2.0
//
// Which devices a process sees: those of a daemon, of itself alone, or of the driver. Processes
// with one key reach each other's devices by addresses; the others only over the network.
//
// Names of hosts do not tell: several hosts may have one name, and containers of one host several.
// So the key is made of the boot of the kernel. Callers: World. Thread-safe: values. Cannot fail:
// without a boot identifier the name of the host stands for it.
#ifndef RUNTIME_COLLECTIVES_INSTANCE_KEY_H
#define RUNTIME_COLLECTIVES_INSTANCE_KEY_H

#include <cstdint>
#include <string>

namespace neuron::runtime {

struct HostFacts {
  std::string boot;            // of the kernel
  uint64_t process_space = 0;  // namespace in which `process` counts
  int32_t process = 0;
};

HostFacts facts_of_this_process();

// `emulator`: NEURON_EMULATOR.
uint64_t instance_key(const HostFacts& facts, const std::string& emulator);
// Processes with one key know each other by their numbers.
uint64_t process_space_key(const HostFacts& facts);
// Of all nodes of an UltraServer, by its id, on whichever hosts they are.
uint64_t instance_key_of_ultra_server(uint64_t id);
// Of one node of it, where the nodes are instances of their own.
uint64_t instance_key_of_node(uint64_t ultra_server, uint32_t node);

}  // namespace neuron::runtime

#endif
