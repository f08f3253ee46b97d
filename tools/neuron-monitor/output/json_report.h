// SPDX-License-Identifier: Apache-2.0
//
// The report of an observation, with the names of the original's
// (tools/schemas/neuron-monitor.json). Callers: the monitor's loop. Thread-safe: no state. Never
// fails.
#ifndef TOOLS_NEURON_MONITOR_OUTPUT_JSON_REPORT_H
#define TOOLS_NEURON_MONITOR_OUTPUT_JSON_REPORT_H

#include <string>

#include "tools/neuron-monitor/model/observation.h"

namespace neuron::monitor {

struct ReportStyle {
  bool pretty = false;        // indented, over several lines
  bool instance_info = true;  // false: the object is there, its texts are empty
};

// Ends with a newline.
std::string format_report(const Observation& observation, const ReportStyle& style);

}  // namespace neuron::monitor

#endif
