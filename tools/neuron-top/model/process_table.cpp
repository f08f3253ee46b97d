// SPDX-License-Identifier: Apache-2.0
// The table of processes, and that of cores with their engines.
#include <algorithm>
#include <set>

#include "tools/common/terminal.h"
#include "tools/neuron-top/model/rows.h"

namespace neuron::top {
namespace {

// "0-3,8": ranges of ascending numbers.
std::string ranges(const std::set<unsigned>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const unsigned first = *at;
    unsigned last = first;
    for (++at; at != numbers.end() && *at == last + 1; ++at) last = *at;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last != first) text += (last == first + 1 ? ',' : '-') + std::to_string(last);
  }
  return text;
}

// Pod and container, or the first digits of the container's id.
std::string where(const telemetry::Process& process) {
  if (!process.pod_name.empty()) {
    return process.pod_namespace + "/" + process.pod_name +
           (process.container_name.empty() ? "" : "/" + process.container_name);
  }
  if (!process.container_name.empty()) return process.container_name;
  return process.container_id.substr(0, 12);
}

ProcessRow row_of(const telemetry::Process& process, const Scope& scope) {
  ProcessRow row;
  row.key = "p" + std::to_string(process.pid);
  row.pid = process.pid;
  row.user = tools::printable(process.user);
  row.tag = tools::printable(process.tag);
  row.where = tools::printable(where(process));
  row.command = tools::printable(process.command);
  row.error = process.error;
  row.device_bytes = process.device_bytes;
  row.host_bytes = process.host_memory.total();
  std::set<unsigned> cores;
  uint64_t on_cores = 0;
  for (const telemetry::ProcessOnCore& core : process.cores) {
    cores.insert(core.logical_core);
    on_cores += core.memory.total();
    const auto found =
        scope.interval.activities.find({process.pid, core.device, core.physical_core});
    if (found != scope.interval.activities.end()) row.activity += found->second;
  }
  if (!process.cores.empty()) row.activity /= static_cast<double>(process.cores.size());
  row.device_bytes = std::max(row.device_bytes, on_cores);
  row.cores = ranges(cores);
  const auto times = scope.interval.process_times.find(process.pid);
  if (times != scope.interval.process_times.end()) {
    row.processors = times->second.first + times->second.second;
  }
  return row;
}

bool before(const ProcessRow& a, const ProcessRow& b, Sort sort) {
  // The largest first, but pids ascend.
  switch (sort) {
    case Sort::kUtilization:
      if (a.activity.busy != b.activity.busy) return a.activity.busy > b.activity.busy;
      break;
    case Sort::kDeviceMemory:
      if (a.device_bytes != b.device_bytes) return a.device_bytes > b.device_bytes;
      break;
    case Sort::kHostMemory:
      if (a.host_bytes != b.host_bytes) return a.host_bytes > b.host_bytes;
      break;
    default:
      break;
  }
  return a.pid < b.pid;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

bool passes(const std::string& filter, const std::string& text) {
  return std::search(text.begin(), text.end(), filter.begin(), filter.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

std::vector<ProcessRow> build_processes(const Scope& scope) {
  std::vector<ProcessRow> rows;
  for (const telemetry::Process* process : scope.processes) {
    ProcessRow row = row_of(*process, scope);
    if (!passes(scope.state.filter, std::to_string(row.pid) + " " + row.user + " " + row.tag + " " +
                                        row.where + " " + row.command)) {
      continue;
    }
    row.selected = row.key == scope.state.selected;
    rows.push_back(std::move(row));
  }
  const State& state = scope.state;
  std::sort(rows.begin(), rows.end(), [&](const ProcessRow& a, const ProcessRow& b) {
    return state.reversed ? before(b, a, state.sort) : before(a, b, state.sort);
  });
  return rows;
}

std::vector<EngineRow> build_engines(const Scope& scope, const std::vector<DeviceRow>& devices) {
  std::vector<EngineRow> rows;
  for (const DeviceRow& device : devices) {
    for (unsigned core = 0; core < device.cores.size(); ++core) {
      EngineRow row;
      row.key = "e" + key_of_core(device.device, core);
      row.text = "ND" + std::to_string(device.device) + " NC" + std::to_string(core);
      if (!passes(scope.state.filter, row.text)) continue;
      row.activity = device.cores[core].activity;
      row.selected = row.key == scope.state.selected;
      rows.push_back(std::move(row));
    }
  }
  if (scope.state.sort == Sort::kUtilization) {
    std::stable_sort(rows.begin(), rows.end(), [](const EngineRow& a, const EngineRow& b) {
      return a.activity.busy > b.activity.busy;
    });
  }
  if (scope.state.reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

}  // namespace neuron::top
