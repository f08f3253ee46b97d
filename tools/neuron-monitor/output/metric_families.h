// SPDX-License-Identifier: Apache-2.0
//
// The latest values of each group, for readers that ask at any time. Processes of one tag and pod
// count as one: their memory adds up, their counters continue when one of them ends, and disappear
// with the last. Callers: the monitor's loop updates, exporters read; thread-safe by a mutex, held
// for the time of making an exposition. Owns: copies. Cannot fail.
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
  // instance_info: true if labels name this instance.
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
