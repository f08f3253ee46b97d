// SPDX-License-Identifier: Apache-2.0
// The kernel's facts about this host: NUMA nodes with their processors, and EFA devices.
//
// Callers: driver.cpp, the communicator (places of ranks). It reads sysfs; in tests `root` is
// another folder. Thread-safe. Cannot fail: what the kernel does not have is not listed.
#ifndef CCOM_TOPOLOGY_HOST_H
#define CCOM_TOPOLOGY_HOST_H

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::ccom {

struct NumaNode {
  uint32_t number = 0;
  std::vector<uint32_t> processors;
};

struct EfaDevice {
  std::string name;  // "rdmap16s27"
  int32_t numa = -1;
};

struct HostFacts {
  std::vector<NumaNode> numa;  // ascending
  std::vector<EfaDevice> efa;  // by name

  // NUMA node of a processor; 0 when unknown.
  uint32_t numa_of(uint32_t processor) const;
};

HostFacts host_facts(const std::string& root = "/sys");
// "0-3,8" -> 0, 1, 2, 3, 8; unreadable text ends the list.
std::vector<uint32_t> parse_processors(const std::string& text);

}  // namespace neuron::ccom

#endif
