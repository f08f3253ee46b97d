// SPDX-License-Identifier: Apache-2.0
//
// What all free cores do together: collectives and transfers between pairs, by nccom-test.
//
// Callers: the checks, one thread. Starts processes, and waits for each at most as long as it is
// told. Fails: never, what goes wrong is a finding, and so is what there was no time for.
#ifndef TOOLS_NEURON_PRECHECK_COLLECTIVES_H
#define TOOLS_NEURON_PRECHECK_COLLECTIVES_H

#include <chrono>
#include <vector>

#include "tools/device_checks/finding.h"
#include "tools/telemetry/snapshot.h"

namespace neuron::precheck {

struct CollectiveOptions {
  std::vector<int> devices;  // empty: all
  int level = 1;
  std::chrono::milliseconds step{10000};
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
};

checks::Findings check_collectives(const telemetry::Snapshot& snapshot,
                                   const CollectiveOptions& options);

}  // namespace neuron::precheck

#endif
