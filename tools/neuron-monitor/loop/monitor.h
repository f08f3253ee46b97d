// SPDX-License-Identifier: Apache-2.0
//
// The loop of neuron-monitor: sleeps until a group is due, takes a snapshot, hands the observation
// to the stream and to the board.
//
// Callers: main(), tests with a source and a sleep of their own. One thread. Borrows: everything in
// Outlets; null ones are skipped. Fails: End says how; only when the stream cannot be written and
// no other outlet is left. Processes, devices and daemons that go away are lines in reports, never
// an end.
#ifndef TOOLS_NEURON_MONITOR_LOOP_MONITOR_H
#define TOOLS_NEURON_MONITOR_LOOP_MONITOR_H

#include <functional>
#include <set>
#include <string>

#include "tools/neuron-monitor/configuration/configuration.h"
#include "tools/neuron-monitor/model/observer.h"
#include "tools/neuron-monitor/model/schedule.h"
#include "tools/neuron-monitor/output/json_report.h"
#include "tools/neuron-monitor/output/metric_families.h"
#include "tools/neuron-monitor/output/stream.h"
#include "tools/neuron-monitor/serve/exporter.h"
#include "tools/telemetry/source.h"

namespace neuron::monitor {

struct Outlets {
  Stream* stream = nullptr;
  MetricFamilies* board = nullptr;
  Exporter* exporter = nullptr;  // told when the board changes
};

struct LoopOptions {
  ReportStyle style;
  bool once = false;
  int verbosity = 0;  // 0 silent, 1 errors, 2 processes, 3 reports, 4 times
};

enum class End { kStopped, kReaderGone, kStreamFailed };

class Monitor {
 public:
  // False: the program is to end.
  using Sleep = std::function<bool(SteadyTime until)>;

  Monitor(const Configuration& configuration, telemetry::Source& source, const Outlets& outlets,
          const LoopOptions& options, Sleep sleep);

  End run();

 private:
  SnapshotPointer take(const telemetry::Wanted& wanted);
  void tell_changes(const Observation& observation);
  // Nothing: go on.
  std::optional<End> publish(const Observation& observation);
  std::optional<End> stream_ended();

  Observer observer_;
  telemetry::Source& source_;
  Outlets outlets_;
  const LoopOptions options_;
  const Sleep sleep_;
  const Duration idle_period_;  // if the configuration asks for no group
  std::string last_error_;
  std::set<ProcessKey> last_processes_;
  uint64_t left_out_ = 0;  // reports for which the stream had no room
};

}  // namespace neuron::monitor

#endif
