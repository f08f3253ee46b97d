// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-ls/view/inventory.h"

#include <algorithm>

#include "tools/common/terminal.h"
#include "tools/common/time_text.h"
#include "tools/telemetry/generation.h"

namespace neuron::ls {
namespace {

// Generations whose physical cores can be joined to logical ones.
bool has_logical_cores(const telemetry::Device& device) {
  return device.cores.size() >= 8 || device.logical_size > 1;
}

std::string cores_on(const telemetry::Process& process, unsigned device) {
  std::vector<unsigned> held;
  for (const telemetry::ProcessOnCore& core : process.cores) {
    if (core.device == device) held.push_back(core.logical_core);
  }
  std::sort(held.begin(), held.end());
  held.erase(std::unique(held.begin(), held.end()), held.end());
  std::string text;
  for (const unsigned core : held) text += (text.empty() ? "" : ", ") + std::to_string(core);
  return text;
}

Process process_on(const telemetry::Process& process, unsigned device) {
  Process out;
  out.pid = process.pid;
  out.command = tools::printable(process.command);
  out.runtime_version =
      process.runtime_version.empty() ? "NA" : tools::printable(process.runtime_version);
  out.user = process.user;
  out.cores = cores_on(process, device);
  if (process.since) out.since = tools::local_text(*process.since);
  for (const telemetry::ProcessOnCore& core : process.cores) {
    if (core.device == device) out.memory_bytes += core.memory.total();
  }
  return out;
}

}  // namespace

std::string core_range(const Device& device) {
  if (device.cores == 0) return {};
  const unsigned last = device.first_core + device.cores - 1;
  return device.cores == 1 ? std::to_string(last)
                           : std::to_string(device.first_core) + "-" + std::to_string(last);
}

Inventory make_inventory(const telemetry::Snapshot& snapshot) {
  Inventory inventory{snapshot.instance.type, snapshot.instance.id, {}, false};
  for (const telemetry::Device& known : snapshot.devices) {
    Device device;
    device.index = static_cast<int>(known.index);
    const unsigned size = std::max(1u, known.logical_size);
    device.cores = static_cast<unsigned>(known.cores.size()) / size;
    device.logical_size = has_logical_cores(known) ? size : 0;
    device.first_core = known.cores.empty() ? 0 : known.cores.front().logical_core;
    for (const telemetry::Core& core : known.cores) {
      device.first_core = std::min(device.first_core, core.logical_core);
    }
    device.memory_bytes = known.memory_bytes;
    device.memory_used = known.memory_used;
    for (const telemetry::Link& link : known.links) {
      device.connected.push_back(static_cast<int>(link.device));
      if (!link.up) device.links_down.push_back(static_cast<int>(link.device));
    }
    device.bdf = known.bdf;
    device.cpu_affinity = known.cpu_affinity;
    device.numa_node = known.numa_node;
    device.state = telemetry::name(known.state);
    inventory.of_first_chip = inventory.of_first_chip ||
                              telemetry::generation_of_cores(known.core_architecture).number == 1;
    for (const telemetry::Process& process : snapshot.processes) {
      if (std::find(process.devices.begin(), process.devices.end(), known.index) !=
          process.devices.end()) {
        device.processes.push_back(process_on(process, known.index));
      }
    }
    inventory.devices.push_back(std::move(device));
  }
  return inventory;
}

}  // namespace neuron::ls
