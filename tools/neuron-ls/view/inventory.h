// SPDX-License-Identifier: Apache-2.0
// The data of the original's outputs: a host's devices, their places, neighbours and processes.
//
// Callers: neuron-ls, one thread. Plain values, taken from a snapshot. Cannot fail: an unknown
// value keeps its neutral value (-1, empty).
#ifndef TOOLS_NEURON_LS_VIEW_INVENTORY_H
#define TOOLS_NEURON_LS_VIEW_INVENTORY_H

#include <cstdint>
#include <string>
#include <vector>

#include "tools/telemetry/snapshot.h"

namespace neuron::ls {

struct Process {
  int pid = 0;
  std::string command;          // full command line, spaces between arguments
  std::string runtime_version;  // "NA" if the process has not recorded one
  std::string user, cores, since;
  uint64_t memory_bytes = 0;  // of the device's
};

struct Device {
  int index = 0;
  unsigned cores = 0;         // as processes count them
  unsigned logical_size = 0;  // physical cores of each; 0 where it is always one
  unsigned first_core = 0;    // global id of core 0
  uint64_t memory_bytes = 0;
  std::vector<int> connected;   // as chips are wired, links that are down included
  std::vector<int> links_down;  // of those, the neighbours whose link is down
  std::string bdf;              // 0000:00:1e.0
  std::string cpu_affinity;     // Linux CPU list
  int numa_node = -1;
  std::vector<Process> processes;
  uint64_t memory_used = 0;
  std::string state;  // "ready"
};

struct Inventory {
  std::string instance_type;  // empty if unknown
  std::string instance_id;
  std::vector<Device> devices;
  bool of_first_chip = false;  // Inferentia1
};

Inventory make_inventory(const telemetry::Snapshot& snapshot);

// "0-3", or "5" of one.
std::string core_range(const Device& device);

// The outputs; each ends with a newline. A wide table has more columns: memory used, state, and for
// each process its user, cores, memory and the time since which it holds the device. On the first
// chip a table that is not wide has the columns that the original had in its time.
std::string format_table(const Inventory& inventory, bool wide);
std::string format_json(const Inventory& inventory);
std::string format_topology(const Inventory& inventory, bool unicode);

}  // namespace neuron::ls

#endif
