// SPDX-License-Identifier: Apache-2.0
// What Linux says of another process: its state, when it began, and whether it has ended.
//
// Callers: any thread. Values only. Fails: no status for a number that no process has, or where
// /proc does not show it; a process of which nothing can be known counts as one that lives. Source:
// proc(5), fields 3 and 22 of /proc/PID/stat; pidfd_open(2).
#ifndef DRIVER_BASE_PROCESS_STATUS_H
#define DRIVER_BASE_PROCESS_STATUS_H

#include <cstdint>
#include <optional>

namespace neuron::base {

struct ProcessStatus {
  // As /proc says: 'R', 'S', 'T' ... It is the first thread's: 'Z' is also a process that goes on
  // in other threads.
  char state = 0;
  uint64_t start_ticks = 0;  // clock ticks between the start of the host and that of the process

  // By a signal (SIGSTOP); a debugger's breakpoint does not count.
  bool is_stopped() const { return state == 'T'; }
};

std::optional<ProcessStatus> process_status(int32_t pid);
// Whether no process has this number, or the one that has it has ended with all of its threads and
// its parent has not waited for it yet: then all of its descriptors are closed.
bool process_has_ended(int32_t pid);

}  // namespace neuron::base

#endif
