// SPDX-License-Identifier: Apache-2.0
//
// Runs a part of a check in a process of its own: this program again, called with --worker.
//
// Concepts: a program that runs parts declares the options of WorkerOptions; a worker process only
// calls work(). This code judges how a part ended, and the error counters of the device before and
// after it: a worker that hangs, crashes or leaves errors behind is a finding.
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
// Passes on the lines of the worker. If the worker does not reach its end, a finding says where it
// was.
void run_job(const Job& job, const UseLine& use);
// The same, with a finding for each error that the device has counted meanwhile.
void run_job_and_count(const Job& job, const UseLine& use);

// The cores of a device that a program can name, and whether they are free.
struct ProgramCore {
  int core = 0;  // within the device
  unsigned logical = 0;
  bool free = true;
};
std::vector<ProgramCore> program_cores(const telemetry::Device& device);
// The variables that give a program that core alone.
Environment environment_of(const ProgramCore& core);

// Hidden options of a program that runs parts.
struct WorkerOptions {
  std::string kind;  // empty: this process is no worker
  Part part;
  int64_t budget_ms = 0;
};
void add_worker_options(tools::Command& line, WorkerOptions& options);
// Does the whole work of a worker; returns its exit status.
int work(const WorkerOptions& options);

}  // namespace neuron::checks

#endif
