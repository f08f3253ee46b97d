// SPDX-License-Identifier: Apache-2.0
//
// Who stops engines of a core, and looks at them while an execution waits.
// Callers: CoreLaunch, in the thread of the execution, which has the turn of the core. Put it into
// Core::debugger and take it away between executions.
#ifndef RUNTIME_DEVICE_LAUNCH_DEBUGGER_H
#define RUNTIME_DEVICE_LAUNCH_DEBUGGER_H

namespace neuron::runtime {

class LaunchDebugger {
 public:
  virtual ~LaunchDebugger() = default;
  // Before each launch; the programs of the engines are in place and wait for it.
  virtual void begins() = 0;
  // Called every few milliseconds, and when nothing can advance. True: engines had been stopped,
  // and the wait goes on.
  virtual bool look() = 0;
  // The execution has failed; the core is as the failure left it, and is reset next.
  virtual void failed() = 0;
};

}  // namespace neuron::runtime

#endif
