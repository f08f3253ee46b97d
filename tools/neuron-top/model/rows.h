// SPDX-License-Identifier: Apache-2.0
//
// The rows of the lower pane: memory tree, processes, engines. Callers: build_view(). Values.
#ifndef TOOLS_NEURON_TOP_MODEL_ROWS_H
#define TOOLS_NEURON_TOP_MODEL_ROWS_H

#include "tools/neuron-top/model/view.h"

namespace neuron::top {

// The data of the rows: the snapshot, and those of its processes that the tab shows.
struct Scope {
  const telemetry::Snapshot& now;
  const Interval& interval;
  const State& state;
  std::vector<const telemetry::Process*> processes;
};

std::vector<TreeRow> build_tree(const Scope& scope);
std::vector<ProcessRow> build_processes(const Scope& scope);
std::vector<EngineRow> build_engines(const Scope& scope, const std::vector<DeviceRow>& devices);

// True if a text contains the filter, whatever the case; every text contains an empty one.
bool passes(const std::string& filter, const std::string& text);

std::string key_of_core(unsigned device, unsigned core);

}  // namespace neuron::top

#endif
