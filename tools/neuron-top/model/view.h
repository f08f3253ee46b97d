// SPDX-License-Identifier: Apache-2.0
//
// Everything that neuron-top shows, as values: cores, bars, rows and words, but not their
// positions.
//
// Callers: made by build_view() from snapshots and the person's choices; read by the layout, by
// keys, and by the machine formats. One thread. Cannot fail: what the snapshot lacks is not shown,
// and its sentences are in `notes`.
#ifndef TOOLS_NEURON_TOP_MODEL_VIEW_H
#define TOOLS_NEURON_TOP_MODEL_VIEW_H

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tools/neuron-top/model/activity.h"
#include "tools/neuron-top/model/state.h"

namespace neuron::top {

struct CoreCell {
  unsigned logical_core = 0;  // among all of the host
  bool used = false;          // by a process of the tab
  Activity activity;
  uint64_t memory_bytes = 0;
  std::vector<int> pids;
  std::vector<std::string> hung_engines;
};

struct DeviceRow {
  unsigned device = 0;
  std::vector<CoreCell> cores;
  uint64_t memory_used = 0, memory_bytes = 0;
  std::optional<std::vector<unsigned>> links_down;  // neighbours; none: the device is unreadable
  bool selected = false;                            // the tree's selection is inside
  std::string badge;  // "resetting", "hung", "link down"; empty: all is well
};

// A row of the memory tree.
struct TreeRow {
  std::string key;
  unsigned depth = 0;
  bool branch = false, open = false, dimmed = false, selected = false;
  std::string text, model_id;
  uint64_t device_bytes = 0, host_bytes = 0;
};

struct ProcessRow {
  std::string key;
  bool selected = false;
  int pid = 0;
  std::string user, tag, cores, where, command, error;
  Activity activity;
  double processors = 0;  // 1 is one of them
  uint64_t device_bytes = 0, host_bytes = 0;
};

// A core and the activity of its engines.
struct EngineRow {
  std::string key;
  bool selected = false;
  std::string text;  // "ND0 NC1"
  Activity activity;
};

struct Tab {
  int pid = 0;
  std::string label;
  bool active = false;
};

struct View {
  std::string title;
  std::string core_version;  // "v2", "v3d"
  bool flops = false;
  std::vector<DeviceRow> devices;
  Activity total;  // of the tab; shares are averages over all cores
  unsigned cores = 0, cores_used = 0;
  double system_user = 0, system_system = 0, runtime_user = 0, runtime_system = 0;
  telemetry::HostMemory host;
  telemetry::CoreMemory device;
  uint64_t memory_used = 0, memory_bytes = 0;
  telemetry::HardwareCounters hardware;
  std::vector<TreeRow> tree;
  std::vector<ProcessRow> processes;
  std::vector<EngineRow> engines;
  std::vector<Tab> tabs;
  std::deque<double> history;      // of the average utilisation, the oldest first
  std::vector<std::string> notes;  // sentences: no device, one that does not answer ...
  std::string status;              // "paused", "filter: x", "replay 12:00:01"
  Pane pane = Pane::kMemory;
  Sort sort = Sort::kPid;
  bool help = false, show_history = true, typing = false;
};

// `history`: averages of earlier intervals; the view adds nothing to it.
View build_view(const telemetry::Snapshot& now, const Interval& interval, const State& state,
                const std::deque<double>& history);

// The average over all devices and processes, which the history keeps.
double average_utilization(const telemetry::Snapshot& now, const Interval& interval);

// "0.0B", "4.0KB", "441.8MB": one decimal, steps of 1024.
std::string size_text(double bytes);

// Keys of the rows of the pane that is shown, from the top.
std::vector<std::string> row_keys(const View& view);

}  // namespace neuron::top

#endif
