// SPDX-License-Identifier: Apache-2.0
// How a new process becomes a custom operator's: what it gives up before the operator's program
// begins.
//
// A keeper, which is a process that shares memory and descriptors with the host's, makes the
// operator's process, waits for it and ends. So the operator is no child of the host, whose SIGCHLD
// and waits it would disturb: a program that is executed sends that signal whatever it was made
// with, and the keeper executes none. Both make system calls and nothing else - no library
// function, no allocation, no errno - since the host may have any number of threads. The operator's
// process is
//   - without any open file but the two that it shares with its core,
//   - unable to gain rights, to open files, to make processes or threads, to signal others, to use
//     sockets (a filter of system calls, which traps all but a list),
//   - limited in memory, processor time, stack and files,
//   - ended when its keeper ends, which ends with the host's thread.
// Callers: OperatorProcess. Fails: `error` is the errno of the step that the system refused.
#ifndef DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_JAIL_H
#define DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_JAIL_H

#include <linux/filter.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace neuron::core {

// Everything that the new process needs, prepared by the one that makes it.
struct OperatorJail {
  static constexpr unsigned kMostSteps = 256;
  static constexpr int kUnknown = -1;  // no process ends so

  int input_file = -1, result_file = -1, image_file = -1;
  int parent = 0;
  uint64_t memory_bytes = 0;  // address space
  uint64_t processor_seconds = 0;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  const char* no_path = "";  // its address is known to the filter only

  // The filter; written by prepare(), but for the own process id.
  sock_filter steps[kMostSteps];
  unsigned step_count = 0;
  unsigned process_step = 0;

  // What the keeper tells.
  int keeper = 0;         // its process
  int process_file = -1;  // of the operator's process
  int error = 0;          // why the program was not executed
  int status = kUnknown;  // how it ended, as wait4 gives it

  void prepare();
};

// Makes the keeper, which works on `stack` and with `jail` until it ends: both outlive it. `file`
// becomes that of its process. Signals are blocked meanwhile. 0 or an errno.
int start_keeper(OperatorJail& jail, std::span<std::byte> stack, int& file);

}  // namespace neuron::core

#endif
