// SPDX-License-Identifier: Apache-2.0
//
// What neuron-monitor reports and how often: the configuration file of the original.
//
//   { "period": "1s",
//     "neuron_runtimes": [ { "tag_filter": ".*", "period": "2s",
//                            "metrics": [ { "type": "execution_stats", "period": "500ms" } ] } ],
//     "system_metrics": [ { "type": "vcpu_usage" } ],
//     "k8s_info": true }
//
// The period of a metric is its own, else its runtime's, else the root's, else 5 s.
// Callers: main(). Thread-safe: values. Fails: nothing returned and "file:line:column: sentence".
// Unknown keys and old names are only warnings: the original ignores them.
#ifndef TOOLS_NEURON_MONITOR_CONFIGURATION_CONFIGURATION_H
#define TOOLS_NEURON_MONITOR_CONFIGURATION_CONFIGURATION_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/neuron-monitor/configuration/duration.h"

namespace neuron::monitor {

inline constexpr Duration kDefaultPeriod = std::chrono::seconds(5);

enum class Group {
  // Of a process.
  kNeuroncoreCounters,
  kMemoryUsed,
  kRuntimeVcpuUsage,
  kExecutionStats,
  // Of the host.
  kVcpuUsage,
  kMemoryInfo,
  kHardwareCounters,
};
inline constexpr unsigned kRuntimeGroups = 4, kGroups = 7;
std::string_view name(Group group);

struct Metric {
  Group group = Group::kNeuroncoreCounters;
  Duration period = kDefaultPeriod;
};

struct RuntimeSelection {
  std::string tag_filter = ".*";  // Perl's syntax; found anywhere in the tag
  std::vector<Metric> metrics;
};

struct Configuration {
  Duration period = kDefaultPeriod;  // of the root
  std::vector<RuntimeSelection> runtimes;
  std::vector<Metric> system_metrics;
  std::optional<Duration> k8s_period;  // with k8s_info
  std::vector<std::string> warnings;   // "file:line:column: sentence"
};

// Every group, every 5 s, for all processes.
Configuration default_configuration();

// `file` is the name for sentences.
std::optional<Configuration> parse_configuration(std::string_view text, const std::string& file,
                                                 std::string& error);
std::optional<Configuration> read_configuration(const std::string& file, std::string& error);

}  // namespace neuron::monitor

#endif
