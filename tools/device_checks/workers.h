// SPDX-License-Identifier: Apache-2.0
//
// The parts that touch a device, each in a process of its own: lines to standard output.
//
// Callers: work() of a worker process, one thread. Each is an ordinary client of libnrt or of the
// driver library. Fails: every failure is a finding; the process ends with 0 unless it crashed.
#ifndef TOOLS_DEVICE_CHECKS_WORKERS_H
#define TOOLS_DEVICE_CHECKS_WORKERS_H

#include <chrono>
#include <cstdint>

#include "tools/device_checks/finding.h"

namespace neuron::checks {

struct Part {
  int device = 0;
  int core = 0;  // within the device
  int level = 1;
  uint64_t bytes = 0;                   // of HBM that may be taken
  std::chrono::milliseconds budget{0};  // work beyond it is skipped and reported; 0: no limit
  bool force = false;                   // reset even if somebody holds the device
};

// Patterns over HBM, and copies through the queues of every core in both directions.
void check_memory(const Part& part);
// Golden programs on the one core that NEURON_RT_VISIBLE_CORES names.
void check_programs(const Part& part);
// Claims all cores (not if forced), resets the device and waits until the driver reports the end.
// One finding, "device.reset": pass, skip (somebody holds cores) or fail.
void reset_device(const Part& part);

// Writes a line to standard output at once.
void tell(const Line& line);
void tell_step(const Finding& where);
void tell_finding(const Finding& finding);

}  // namespace neuron::checks

#endif
