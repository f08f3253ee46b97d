// SPDX-License-Identifier: Apache-2.0
//
// Checks all free cores together: collectives and transfers between pairs, with nccom-test.
//
// Callers: the checks, one thread. Starts processes and waits for each with a time limit. Fails:
// never; every failure is a finding, and so is a check for which there was no time.
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

// A rank of a collective: its number among the cores of the host, and its place.
struct Rank {
  unsigned logical;
  int device, core;
};

// Fills in place, action and what was expected, from the sentence with which nccom-test failed on
// these ranks. No device is named where all ranks alike were late: then the host is.
void place_failure(const std::string& sentence, const std::vector<Rank>& ranks,
                   checks::Finding& finding);

checks::Findings check_collectives(const telemetry::Snapshot& snapshot,
                                   const CollectiveOptions& options);

}  // namespace neuron::precheck

#endif
