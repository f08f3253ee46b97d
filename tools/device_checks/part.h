// SPDX-License-Identifier: Apache-2.0
//
// A part of a check in a process of its own: this program again, called with --worker.
//
// Concepts: whoever runs parts gives its own program the options of WorkerOptions, and work() is
// all that such a process does. How a part ended is judged here, and so are the error counters of
// the device around it: a worker that hangs, crashes or leaves errors behind is a finding.
// Callers: neuron-precheck, neuron-reset; several threads, a part each. Fails: never, as findings.
#ifndef TOOLS_DEVICE_CHECKS_PART_H
#define TOOLS_DEVICE_CHECKS_PART_H

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tools/common/child_process.h"
#include "tools/common/command_line.h"
#include "tools/device_checks/workers.h"
#include "tools/telemetry/snapshot.h"

namespace neuron::checks {

using tools::Ending;
using tools::Environment;
using tools::Limits;

struct Job {
  const char* kind = "programs";  // or "memory", "reset"
  Part part;                      // its core is -1 for all of the device
  Limits limits;
  Environment environment;
};

using UseLine = std::function<void(const Line&)>;
// The lines of the worker; if it did not come to its end, a finding that says where it was.
void run_job(const Job& job, const UseLine& use);
// The same, and a finding for each error that the device has counted meanwhile.
void run_job_and_count(const Job& job, const UseLine& use);

// The cores of a device that a program can name, and whether nobody holds them.
struct ProgramCore {
  int core = 0;  // within the device
  unsigned logical = 0;
  bool free = true;
};
std::vector<ProgramCore> program_cores(const telemetry::Device& device);
// The variables with which a program gets that core alone.
Environment environment_of(const ProgramCore& core);

// Hidden options of a program that runs parts.
struct WorkerOptions {
  std::string kind;  // empty: this process is no worker
  Part part;
  int64_t budget_ms = 0;
};
void add_worker_options(tools::Command& line, WorkerOptions& options);
// All that a worker does; its exit status.
int work(const WorkerOptions& options);

}  // namespace neuron::checks

#endif
