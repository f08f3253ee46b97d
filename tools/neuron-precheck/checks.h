// SPDX-License-Identifier: Apache-2.0
//
// All checks of a level, in order, over all devices or some.
//
// Concepts: the state is read first; then each device has its memory, its copies and its cores
// checked by worker processes, one device after the other or several side by side; collectives of
// all free cores come last. Error counters are read before and after each worker, so that errors
// are attributed to a core. Callers: main(), one thread. Fails: never; every failure is a finding.
#ifndef TOOLS_NEURON_PRECHECK_CHECKS_H
#define TOOLS_NEURON_PRECHECK_CHECKS_H

#include <chrono>
#include <string>
#include <vector>

#include "tools/device_checks/finding.h"
#include "tools/telemetry/snapshot.h"

namespace neuron::precheck {

using checks::Action;
using checks::Finding;
using checks::Findings;
using checks::Verdict;

struct Options {
  int level = 1;
  std::vector<int> devices;  // empty: all
  // Level 4: the duration; other levels: the time limit, beyond which checks are skipped. 0: as the
  // level says.
  std::chrono::seconds duration{0};
  std::chrono::milliseconds step{0};  // 0: as the level says
  uint64_t memory_bytes = 0;          // of each device; 0: as the level says
  bool collectives = true;
};

struct Result {
  telemetry::Snapshot snapshot;
  std::chrono::system_clock::time_point begun;
  double seconds = 0;
  Findings findings;
  std::vector<int> missing;  // devices that were asked for but do not exist: nothing was checked
};

// Whether a device is among those that are checked: all of them where `devices` is empty.
bool is_wanted(const telemetry::Device& device, const std::vector<int>& devices);

Result check_host(Options options);

// From a snapshot alone: state, versions, links, counters, engines that hang, cores that are busy.
void check_state(const telemetry::Snapshot& snapshot, const std::vector<int>& devices,
                 Findings& findings);

}  // namespace neuron::precheck

#endif
