// SPDX-License-Identifier: Apache-2.0
// The emulated host that all processes of a run share: neuron-emulatord, started for the run where
// NEURON_EMULATOR names a profile, and ended with it.
//
// Callers: start_processes(), before it starts any. Owns: the daemon, its folder in /tmp; while it
// lives NEURON_EMULATOR is the daemon's socket. Fails with what the daemon said.
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
  // Null: nothing is emulated, or processes share a daemon that is there already.
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
