// SPDX-License-Identifier: Apache-2.0
// Chooses the NUMA node for the pages of a mapping, behind an interface so that tests can supply a
// topology.
//
// Callers: Hbm, while it is created. Thread-safe: yes. Fails: prefer() returns false; the memory
// then stays where the host's policy puts it.
#ifndef DRIVER_EMULATOR_CHIP_MEMORY_PLACEMENT_H
#define DRIVER_EMULATOR_CHIP_MEMORY_PLACEMENT_H

#include <cstddef>

namespace neuron::chip {

class MemoryPlacement {
 public:
  virtual ~MemoryPlacement() = default;
  // Nodes of the host; 0 if the host has no NUMA support.
  virtual int node_count() const = 0;
  virtual bool prefer(void* memory, size_t bytes, int node) = 0;
};

// The host's own nodes, through libnuma.
MemoryPlacement& host_placement();

}  // namespace neuron::chip

#endif
