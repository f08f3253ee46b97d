// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/model/view.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "tools/common/terminal.h"
#include "tools/neuron-top/model/rows.h"
#include "tools/telemetry/health.h"

namespace neuron::top {
namespace {

using telemetry::Device;
using telemetry::DeviceState;
using telemetry::Process;
using telemetry::Snapshot;

// True for processes that compute; tools that only observe a device get no tab.
bool is_application(const Process& process) {
  return !process.cores.empty() || !process.models.empty();
}

std::string badge_of(const Device& device, size_t links_down) {
  if (device.state == DeviceState::kResetting) return "resetting";
  if (device.state == DeviceState::kInvalid) return "invalid";
  if (device.state == DeviceState::kOff) return "off";
  for (const telemetry::Core& core : device.cores) {
    if (!core.hung_engines.empty()) return "hung";
  }
  const telemetry::HardwareCounters& hardware = device.hardware;
  if (hardware.mem_ecc_uncorrected + hardware.mem_ecc_repairable_uncorrected +
          hardware.sram_ecc_uncorrected >
      0) {
    return "ECC";
  }
  if (!device.error.empty()) return "no answer";
  return links_down == 0 ? "" : links_down == 1 ? "link down" : "links down";
}

// "v2", or "v3d" where a logical core is two physical ones.
std::string core_version(const Snapshot& now) {
  for (const Device& device : now.devices) {
    const std::string& name = device.core_architecture;
    const size_t at = name.find('v');
    if (at == std::string::npos) continue;
    return name.substr(at) + (device.logical_size > 1 ? "d" : "");
  }
  return "";
}

DeviceRow build_device(const Device& device, const Scope& scope) {
  DeviceRow row;
  row.device = device.index;
  row.memory_used = device.memory_used;
  row.memory_bytes = device.memory_bytes;
  row.links_down = telemetry::links_down(device);
  row.badge = badge_of(device, row.links_down ? row.links_down->size() : 0);
  const std::string key = "d" + std::to_string(device.index);
  const std::string& selected = scope.state.selected;
  row.selected = selected == key || selected.rfind(key + "/", 0) == 0;
  const unsigned size = std::max(1u, device.logical_size);
  row.cores.resize((device.cores.size() + size - 1) / size);
  for (const telemetry::Core& core : device.cores) {
    if (core.physical_core / size >= row.cores.size()) continue;
    CoreCell& cell = row.cores[core.physical_core / size];
    cell.logical_core = core.logical_core;
    cell.hung_engines.insert(cell.hung_engines.end(), core.hung_engines.begin(),
                             core.hung_engines.end());
  }
  for (const Process* process : scope.processes) {
    for (const telemetry::ProcessOnCore& core : process->cores) {
      if (core.device != device.index || core.physical_core / size >= row.cores.size()) continue;
      CoreCell& cell = row.cores[core.physical_core / size];
      cell.used = true;
      cell.memory_bytes += core.memory.total();
      if (cell.pids.empty() || cell.pids.back() != process->pid) cell.pids.push_back(process->pid);
      const auto found =
          scope.interval.activities.find({process->pid, core.device, core.physical_core});
      if (found != scope.interval.activities.end()) cell.activity += found->second;
    }
  }
  for (CoreCell& cell : row.cores) cell.activity /= size;
  return row;
}

void sum_processes(const Scope& scope, View& view) {
  for (const Process* process : scope.processes) {
    view.host.application_memory += process->host_memory.application_memory;
    view.host.constants += process->host_memory.constants;
    view.host.dma_buffers += process->host_memory.dma_buffers;
    view.host.tensors += process->host_memory.tensors;
    for (const telemetry::ProcessOnCore& core : process->cores) {
      view.device.constants += core.memory.constants;
      view.device.model_code += core.memory.model_code;
      view.device.model_shared_scratchpad += core.memory.model_shared_scratchpad;
      view.device.runtime_memory += core.memory.runtime_memory;
      view.device.tensors += core.memory.tensors;
    }
    const auto times = scope.interval.process_times.find(process->pid);
    if (times == scope.interval.process_times.end()) continue;
    view.runtime_user += times->second.first;
    view.runtime_system += times->second.second;
  }
  // A share of all processors of the host, as in the bar beside it.
  const double processors = std::max<double>(1, scope.now.host.processors.size());
  view.runtime_user = std::min(1.0, view.runtime_user / processors);
  view.runtime_system = std::min(1.0, view.runtime_system / processors);
}

void build_tabs(const Snapshot& now, const State& state, View& view) {
  view.tabs.push_back({0, "all", state.tab == 0});
  for (const Process& process : now.processes) {
    if (!is_application(process)) continue;
    view.tabs.push_back(
        {process.pid,
         process.tag.empty() ? std::to_string(process.pid) : tools::printable(process.tag),
         state.tab == process.pid});
  }
  std::sort(view.tabs.begin(), view.tabs.end(),
            [](const Tab& a, const Tab& b) { return a.pid < b.pid; });
}

// All links that are down, in the words of neuron-ls. Each once, though both of its ends tell of
// it, and on one line: there are few lines for notes, and processes need them as well.
void add_links_down(const Snapshot& now, View& view) {
  std::set<std::pair<unsigned, unsigned>> down;
  for (const Device& device : now.devices) {
    for (const unsigned other : telemetry::links_down(device).value_or(std::vector<unsigned>())) {
      down.insert(std::minmax(device.index, other));
    }
  }
  std::string note;
  for (const auto& [a, b] : down) {
    note += (note.empty() ? "Links that are down: " : ", ") + std::to_string(a) + " - " +
            std::to_string(b);
  }
  if (!note.empty()) view.notes.push_back(std::move(note));
}

void add_notes(const Snapshot& now, View& view) {
  if (!now.error.empty()) view.notes.push_back(tools::printable(now.error));
  for (const Device& device : now.devices) {
    if (!device.error.empty()) {
      view.notes.push_back("device " + std::to_string(device.index) + ": " +
                           tools::printable(device.error));
    }
    for (const telemetry::Core& core : device.cores) {
      for (const std::string& engine : core.hung_engines) {
        view.notes.push_back("device " + std::to_string(device.index) + " core " +
                             std::to_string(core.physical_core) + ": " + engine + " hangs");
      }
    }
  }
  add_links_down(now, view);
  for (const Process& process : now.processes) {
    if (!process.error.empty()) {
      view.notes.push_back("process " + std::to_string(process.pid) + ": " +
                           tools::printable(process.error));
    }
  }
}

std::string title_of(const Snapshot& now) {
  std::string title = "neuron-top";
  if (!now.versions.tools.empty()) title += " " + now.versions.tools;
  title += " running on ";
  const bool named = !now.instance.id.empty();
  if (named) title += now.instance.id + " ";
  const std::string type = now.instance.type.empty() ? "this host" : now.instance.type;
  return title + (named ? "(" + type + ")" : type);
}

}  // namespace

std::string size_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%s", bytes, kUnits[unit]);
  return text;
}

double average_utilization(const Snapshot& now, const Interval& interval) {
  size_t cores = 0;
  for (const Device& device : now.devices) cores += device.cores.size();
  double busy = 0;
  for (const auto& [place, activity] : interval.activities) busy += activity.busy;
  return cores == 0 ? 0 : std::min(1.0, busy / static_cast<double>(cores));
}

std::vector<std::string> row_keys(const View& view) {
  std::vector<std::string> keys;
  if (view.pane == Pane::kMemory) {
    for (const TreeRow& row : view.tree) keys.push_back(row.key);
  } else if (view.pane == Pane::kProcesses) {
    for (const ProcessRow& row : view.processes) keys.push_back(row.key);
  } else {
    for (const EngineRow& row : view.engines) keys.push_back(row.key);
  }
  return keys;
}

View build_view(const Snapshot& now, const Interval& interval, const State& state,
                const std::deque<double>& history) {
  View view;
  Scope scope{now, interval, state, {}};
  for (const Process& process : now.processes) {
    if (state.tab == 0 ? is_application(process) || state.pane == Pane::kProcesses
                       : process.pid == state.tab) {
      scope.processes.push_back(&process);
    }
  }
  view.title = title_of(now);
  view.core_version = core_version(now);
  view.flops = state.flops;
  view.system_user = interval.system_user;
  view.system_system = interval.system_system;
  sum_processes(scope, view);
  for (const Device& device : now.devices) {
    view.devices.push_back(build_device(device, scope));
    view.memory_used += device.memory_used;
    view.memory_bytes += device.memory_bytes;
    view.hardware.mem_ecc_corrected += device.hardware.mem_ecc_corrected;
    view.hardware.mem_ecc_uncorrected += device.hardware.mem_ecc_uncorrected;
    view.hardware.mem_ecc_repairable_uncorrected += device.hardware.mem_ecc_repairable_uncorrected;
    view.hardware.sram_ecc_corrected += device.hardware.sram_ecc_corrected;
    view.hardware.sram_ecc_uncorrected += device.hardware.sram_ecc_uncorrected;
    for (const CoreCell& cell : view.devices.back().cores) {
      view.total += cell.activity;
      ++view.cores;
      view.cores_used += cell.used ? 1 : 0;
    }
  }
  if (view.cores > 0) view.total /= view.cores;
  build_tabs(now, state, view);
  view.tree = build_tree(scope);
  view.processes = build_processes(scope);
  view.engines = build_engines(scope, view.devices);
  view.history = history;
  add_notes(now, view);
  if (state.tab != 0 && scope.processes.empty()) {
    view.notes.push_back("process " + std::to_string(state.tab) +
                         " has ended; press 1 for all processes");
  }
  if (state.paused) view.status = "paused";
  if (state.typing || !state.filter.empty()) {
    view.status += (view.status.empty() ? "" : ", ") + ("filter: " + state.filter);
  }
  view.pane = state.pane;
  view.sort = state.sort;
  view.help = state.help;
  view.show_history = state.history;
  view.typing = state.typing;
  return view;
}

}  // namespace neuron::top
