// SPDX-License-Identifier: Apache-2.0
//
// Makes observations from snapshots: for each group that is due, the difference to the snapshot
// with which the group was last observed.
//
// A new process counts from zero. A process that could not be seen for a while (its device did not
// answer) continues from its last counters: its work is reported later, never twice, never lost.
// Callers: the monitor's loop, one thread. Owns: the snapshots that differences start from.
// Fails: never; the errors of a snapshot become those of groups and processes.
#ifndef TOOLS_NEURON_MONITOR_MODEL_OBSERVER_H
#define TOOLS_NEURON_MONITOR_MODEL_OBSERVER_H

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/neuron-monitor/configuration/configuration.h"
#include "tools/neuron-monitor/model/observation.h"
#include "tools/telemetry/snapshot.h"
#include "tools/telemetry/source.h"

namespace neuron::monitor {

using SnapshotPointer = std::shared_ptr<const telemetry::Snapshot>;

class Observer {
 public:
  explicit Observer(const Configuration& configuration);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // One for each thing to observe, for a Schedule; their indices are those of observe().
  std::vector<Duration> periods() const;

  // The parts that a snapshot for these items must hold.
  telemetry::Wanted wanted(const std::vector<size_t>& due) const;

  // Gives the first snapshot, from which the first differences start.
  void start(SnapshotPointer snapshot);
  Observation observe(SnapshotPointer snapshot, const std::vector<size_t>& due);

 private:
  struct Item;
  struct TagFilter;

  const Item* item_for(const telemetry::Process& process, Group group,
                       const std::vector<const Item*>& due) const;
  void observe_process(const telemetry::Snapshot& now, const telemetry::Process& process,
                       const std::vector<const Item*>& due, Observation& out) const;
  void remember(Item& item, const SnapshotPointer& snapshot);

  std::vector<Item> items_;
  std::vector<TagFilter> filters_;
};

}  // namespace neuron::monitor

#endif
