// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-monitor for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_MONITOR_MANUAL_H
#define TOOLS_NEURON_MONITOR_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::monitor {

inline tools::Manual manual() {
  return {
      .name = "neuron-monitor",
      .summary = "report metrics of Neuron devices and of the processes that use them",
      .description =
          R"(Writes a report as one line of JSON to standard output whenever a group of metrics is due; the
first comes after a quarter of a second. Counts are of the `period` that each group names, not since
the start; latencies are null when nothing ran. Without a configuration every group of all processes
is reported each 5 seconds.

With `--prometheus` and `--otlp` the same metrics are served and pushed, beside the stream or, with
`--no-stream`, instead of it. A scrape is answered with the latest report and costs the devices
nothing.

Processes, devices and daemons come and go: what cannot be read is a sentence in the `error` of the
group, process or device concerned, and the report goes on.)",
      .sections =
          {{"CONFIGURATION",
            R"(A file in JSON:

  { "period": "1s",
    "neuron_runtimes": [
      { "tag_filter": ".*", "period": "2s",
        "metrics": [ { "type": "neuroncore_counters" }, { "type": "memory_used" },
                     { "type": "neuron_runtime_vcpu_usage" },
                     { "type": "execution_stats", "period": "500ms" } ] } ],
    "system_metrics": [ { "type": "vcpu_usage" }, { "type": "memory_info" },
                        { "type": "neuron_hw_counters" } ],
    "k8s_info": true }

The period of a metric is its own, else that of its runtime, else that of the root, else 5s. A
duration is a number with a unit (ns, us, ms, s, m, h), or several: `1m30s`. `tag_filter` is a
regular expression found anywhere in the tag of a process (its `NEURON_PROCESS_TAG`, else its pid);
a group of a process belongs to the first entry that names the group and likes the tag. `k8s_info`
adds which pod has which core. What is wrong is told with file, line and column; keys that mean
nothing are warnings, which `--check-config` takes for errors.)"},
           {"METRICS",
            R"(Names are those of the original's companion for Prometheus. Counters grow, those of processes with
one `runtime_tag` and pod together; when the last of them ends, its metrics go. `/metrics` is in the
text format or in OpenMetrics, as the client accepts; `/healthz` is 200 while something is measured.
With OTLP the names are neuron.SCOPE.NAME; https is the task of a collector on this host.)"}},
      .exit_statuses = {{0, "done, ended by a signal, or its reader has enough"},
                        {1,
                         "an address cannot be listened on, standard output cannot be written, "
                         "--check-config has found something strange, or --once could not push"},
                        {2, "wrong usage, or a configuration that is wrong"}},
      .environment = {tools::kEmulatorVariable},
      .examples = {{"neuron-monitor | jq -c .neuron_runtime_data", "what processes do"},
                   {"neuron-monitor --once --pretty", "one report, for people"},
                   {"neuron-monitor --no-stream --prometheus 127.0.0.1:9600",
                    "a target of Prometheus"},
                   {"neuron-monitor -c monitor.json --no-stream --otlp http://127.0.0.1:4318",
                    "push to a collector"}},
      .see_also = {"neuron-ls(1)", "neuron-top(1)", "neuron-doctor(1)"}};
}

}  // namespace neuron::monitor

#endif
