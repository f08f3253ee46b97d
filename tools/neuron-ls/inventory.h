// SPDX-License-Identifier: Apache-2.0
// What neuron-ls knows of a host: its devices, their place, neighbours and processes.
//
// Callers: neuron-ls, one thread. Plain values, read once through the driver library (ndl_*), sysfs
// and /proc. Fails: discover() gives a sentence when there is no device; what a single device does
// not tell stays at its neutral value (-1, empty).
#ifndef TOOLS_NEURON_LS_INVENTORY_H_
#define TOOLS_NEURON_LS_INVENTORY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::ls {

struct Process {
  int pid = 0;
  std::string command;          // full command line, spaces between arguments
  std::string runtime_version;  // "NA" if the process has not recorded one
};

struct Device {
  int index = 0;
  unsigned cores = 0;         // as processes count them
  unsigned logical_size = 0;  // physical cores of each; 0 where it is always one
  unsigned first_core = 0;    // global id of core 0
  uint64_t memory_bytes = 0;
  std::vector<int> connected;
  std::string bdf;           // 0000:00:1e.0
  std::string cpu_affinity;  // Linux CPU list
  int numa_node = -1;
  std::vector<Process> processes;
};

struct Inventory {
  std::string instance_type;  // empty if unknown
  std::string instance_id;
  std::vector<Device> devices;
};

// `all_processes`: also those without a runtime record, this program among them.
Inventory discover(bool all_processes, std::string& error);

// The outputs; each ends with a newline.
std::string format_table(const Inventory& inventory, bool wide);
std::string format_json(const Inventory& inventory);
std::string format_topology(const Inventory& inventory, bool unicode);

}  // namespace neuron::ls

#endif  // TOOLS_NEURON_LS_INVENTORY_H_
