// SPDX-License-Identifier: Apache-2.0
// One run of a custom operator's program, in a process of its own.
//
// The process is no child of the host's: no SIGCHLD tells of it, and a wait for any child does not
// find it (operator_jail.h). The host's threads, signal handlers and descriptors stay as they are.
// Callers: OperatorRunner, in the group's thread, which waits for it. Owns the process: the
// destructor ends it. Fails: End::kNotStarted with an errno; base::Abandoned if nobody waits for
// the core any more.
#ifndef DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_PROCESS_H
#define DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_PROCESS_H

#include <chrono>
#include <cstdint>
#include <memory>

#include "driver/base/deadline.h"
#include "driver/base/file_descriptor.h"

namespace neuron::core {

struct OperatorStart {
  int image_file = -1, input_file = -1, result_file = -1;
  uint64_t tensor_bytes = 0;
  std::chrono::seconds patience{1};
  unsigned core = 0, cores = 1;
};

class OperatorProcess {
 public:
  enum class End : uint8_t { kNotStarted, kExit, kSignal, kTime };

  OperatorProcess();
  ~OperatorProcess();
  OperatorProcess(const OperatorProcess&) = delete;
  OperatorProcess& operator=(const OperatorProcess&) = delete;

  void start(const OperatorStart& start);
  // How it ended; `value` is its exit status, its signal or an errno. Ends it at the deadline.
  End wait(base::Deadline deadline, int& value);

 private:
  struct Keeper;
  void kill() const;
  bool ended();
  void wait_for_end(base::Deadline deadline);
  // Kills the operator's process if it is left, and waits. False: it is still there at the
  // deadline.
  bool operator_ended(base::Deadline deadline) const;

  std::unique_ptr<Keeper> keeper_;
  base::FileDescriptor keeper_file_;  // of its process; none: it has ended
  int error_ = 0;
};

}  // namespace neuron::core

#endif
