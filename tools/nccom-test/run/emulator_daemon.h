// SPDX-License-Identifier: Apache-2.0
// The emulated host that all processes of a run share. If NEURON_EMULATOR names a profile, a
// neuron-emulatord is started for the run and ended with it.
//
// Callers: start_processes(), before it starts any. Owns: the daemon, its folder in /tmp; while it
// lives NEURON_EMULATOR is the daemon's socket. Fails with the daemon's sentence.
#ifndef TOOLS_NCCOM_TEST_RUN_EMULATOR_DAEMON_H
#define TOOLS_NCCOM_TEST_RUN_EMULATOR_DAEMON_H

#include <memory>
#include <optional>
#include <string>

#include "ccom/base/error.h"
#include "tools/common/child_process.h"

namespace neuron::nccom {

class EmulatorDaemon {
 public:
  // Null: nothing is emulated, or the processes share a daemon that already runs.
  static ccom::Result<std::unique_ptr<EmulatorDaemon>> start_if_needed();
  ~EmulatorDaemon();
  EmulatorDaemon(const EmulatorDaemon&) = delete;
  EmulatorDaemon& operator=(const EmulatorDaemon&) = delete;

 private:
  EmulatorDaemon() = default;
  ccom::Result<void> start();
  bool answers() const;

  std::string profile_, folder_, socket_, log_;
  std::optional<tools::ChildProcess> process_;
};

}  // namespace neuron::nccom

#endif
