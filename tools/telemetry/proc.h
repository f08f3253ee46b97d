// SPDX-License-Identifier: Apache-2.0
//
// Reads what /proc, /sys and the firmware say about this host and its processes.
//
// Callers: the host's Source, any thread; no state. Fails: never; a value that is missing or may
// not be read keeps its neutral value.
#ifndef TOOLS_TELEMETRY_PROC_H
#define TOOLS_TELEMETRY_PROC_H

#include <string>
#include <string_view>

#include "tools/telemetry/snapshot.h"

namespace neuron::telemetry {

// At most `limit` bytes of a file; "" if it cannot be read.
std::string read_file(const std::string& path, size_t limit = 1u << 20);
std::string first_line(const std::string& path);

// Makes text printable: control characters become spaces, bytes that are not UTF-8 become '?'.
std::string presentable(std::string text);

// Command, user, start, processor time, container and pod of `process.pid`. False when there is no
// such process any more.
bool describe(Process& process);

// Container and pod out of the text of /proc/PID/cgroup.
void find_container(std::string_view cgroup, Process& process);

HostState read_host_state();

// `emulated`: the firmware of this machine is not asked, because the devices are not its own.
Instance read_instance(bool emulated);

// Network devices that carry collectives.
std::vector<NetworkDevice> read_network();

// NUMA node and processors of the device at a PCI address; -1 and "" if the host has none there.
void read_place(const std::string& bdf, int& numa_node, std::string& cpu_affinity);

}  // namespace neuron::telemetry

#endif
