// SPDX-License-Identifier: Apache-2.0
// What Linux says of another process: its state and when it began.
//
// Callers: any thread. Values only. Fails: none for a number that no process has, or where /proc
// does not show it. Source: proc(5), fields 3 and 22 of /proc/PID/stat.
#ifndef DRIVER_BASE_PROCESS_STATUS_H
#define DRIVER_BASE_PROCESS_STATUS_H

#include <cstdint>
#include <optional>

namespace neuron::base {

struct ProcessStatus {
  char state = 0;            // as /proc says: 'R', 'S', 'T', 'Z' ...
  uint64_t start_ticks = 0;  // clock ticks between the start of the host and that of the process

  // By a signal (SIGSTOP); a debugger's breakpoint does not count.
  bool is_stopped() const { return state == 'T'; }
  // All of its descriptors are closed, but its parent has not waited for it yet; or its first
  // thread has ended before the others, which looks the same.
  bool has_ended() const { return state == 'Z' || state == 'X'; }
};

std::optional<ProcessStatus> process_status(int32_t pid);

}  // namespace neuron::base

#endif
