// SPDX-License-Identifier: Apache-2.0
// The devices themselves: state, errors, planted faults, who holds them, where they are.
#include <algorithm>
#include <set>

#include "tools/common/time_text.h"
#include "tools/neuron-doctor/checks/check.h"
#include "tools/telemetry/health.h"

namespace neuron::doctor {
namespace {

std::string title(const telemetry::Device& device) {
  return "device " + std::to_string(device.index);
}

void check_health(const Host& host, Checks& checks) {
  unsigned healthy = 0;
  for (const telemetry::Device& device : host.snapshot.devices) {
    const std::vector<telemetry::Ailment> list = telemetry::ailments(device);
    if (list.empty()) ++healthy;
    for (const telemetry::Ailment& ailment : list) {
      checks.push_back({"device." + std::to_string(device.index) + ".health", "health of a device",
                        ailment.fatal ? Verdict::kFail : Verdict::kWarn,
                        title(device) + ": " + ailment.what, "a device in order", ailment.action});
    }
  }
  if (healthy == 0) return;
  checks.push_back({"devices.health",
                    "health of the devices",
                    Verdict::kPass,
                    std::to_string(healthy) + " of " +
                        std::to_string(host.snapshot.devices.size()) +
                        " devices have no error, no fault and all links",
                    {},
                    {}});
}

std::string holder_text(const telemetry::Process& process, size_t cores) {
  constexpr size_t kMost = 40;
  std::string command = process.command.substr(0, kMost);
  if (process.command.size() > kMost) command += "...";
  std::string text = "pid " + std::to_string(process.pid) + " (" + command;
  if (!process.user.empty()) text += ", " + process.user;
  if (process.since) text += ", since " + tools::local_text(*process.since);
  return text + ") holds " + std::to_string(cores) + (cores == 1 ? " core" : " cores");
}

void check_cores(const Host& host, Checks& checks) {
  std::set<unsigned> all, held;
  for (const telemetry::Device& device : host.snapshot.devices) {
    for (const telemetry::Core& core : device.cores) {
      all.insert(core.logical_core);
      if (core.holder != 0) held.insert(core.logical_core);
    }
  }
  Check check{"cores.free", "cores that are free", Verdict::kPass, {}, {}, {}};
  std::string holders;
  for (const telemetry::Process& process : host.snapshot.processes) {
    std::set<unsigned> own;
    for (const telemetry::ProcessOnCore& core : process.cores) own.insert(core.logical_core);
    held.insert(own.begin(), own.end());
    if (!own.empty()) holders += "; " + holder_text(process, own.size());
  }
  check.found = std::to_string(all.size() - held.size()) + " of " + std::to_string(all.size()) +
                " cores are free" + holders;
  if (!all.empty() && held.size() == all.size()) {
    check.verdict = Verdict::kWarn;
    check.expected = "a free core, for a program that is to start now";
    check.action = "wait, or end a holder; NEURON_RT_VISIBLE_CORES chooses cores";
  }
  checks.push_back(check);
}

void check_places(const Host& host, Checks& checks) {
  Check check{"devices.numa", "NUMA nodes of the devices", Verdict::kPass, {}, {}, {}};
  std::set<int> nodes;
  unsigned unknown = 0;
  for (const telemetry::Device& device : host.snapshot.devices) {
    if (device.numa_node < 0) {
      ++unknown;
    } else {
      nodes.insert(device.numa_node);
    }
  }
  std::string list;
  for (const int node : nodes) list += (list.empty() ? "" : ", ") + std::to_string(node);
  check.found = list.empty() ? "the platform does not tell the NUMA nodes of devices"
                             : "devices on NUMA nodes " + list;
  if (list.empty()) check.verdict = Verdict::kSkip;
  if (!list.empty() && unknown != 0) {
    check.verdict = Verdict::kWarn;
    check.found += "; of " + std::to_string(unknown) + " the node is not known";
    check.expected = "a node for each";
    check.action = "look at /sys/bus/pci/devices/BDF/numa_node";
  }
  checks.push_back(check);
}

}  // namespace

void check_devices(const Host& host, Checks& checks) {
  if (host.snapshot.devices.empty()) {
    checks.push_back({"devices.health",
                      "health of the devices",
                      Verdict::kSkip,
                      "no device to look at",
                      {},
                      {}});
    return;
  }
  check_health(host, checks);
  check_cores(host, checks);
  check_places(host, checks);
}

}  // namespace neuron::doctor
