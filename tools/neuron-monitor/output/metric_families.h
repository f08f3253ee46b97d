// SPDX-License-Identifier: Apache-2.0
//
// The latest of each group, for those who ask when they like. Processes of one tag and pod are one:
// their memory adds up, their counters go on when one of them ends, and are gone with the last.
// Callers: the monitor's loop updates, exporters read; thread-safe by a mutex, held for the time
// of making an exposition. Owns: copies. Cannot fail.
#ifndef TOOLS_NEURON_MONITOR_OUTPUT_METRIC_FAMILIES_H
#define TOOLS_NEURON_MONITOR_OUTPUT_METRIC_FAMILIES_H

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tools/neuron-monitor/model/observation.h"
#include "tools/neuron-monitor/output/exposition.h"

namespace neuron::monitor {

class MetricFamilies {
 public:
  // instance_info: whether labels tell which instance this is.
  explicit MetricFamilies(bool instance_info) : instance_info_(instance_info) {}

  void update(const Observation& observation);
  Exposition exposition() const;
  // Grows with each update.
  uint64_t version() const;

 private:
  // runtime_tag, pod, namespace, container: in the order of labels.
  using Owner = std::array<std::string, 4>;
  struct Account {
    Tally total;
    double created = 0;
    std::set<ProcessKey> members;
  };

  static Owner owner_of(const RuntimeObservation& runtime);
  void merge(const RuntimeObservation& runtime, double now);
  void forget(const std::set<ProcessKey>& alive);

  const bool instance_info_;
  mutable std::mutex mutex_;
  uint64_t version_ = 0;
  double started_ = 0;
  Observation latest_;  // of the host
  std::map<ProcessKey, RuntimeObservation> runtimes_;
  std::map<Owner, Account> accounts_;
};

}  // namespace neuron::monitor

#endif
