// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-emulatorctl for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_EMULATORCTL_MANUAL_H
#define TOOLS_NEURON_EMULATORCTL_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::emulatorctl {

inline tools::Manual manual() {
  return {
      .name = "neuron-emulatorctl",
      .summary = "look into a running neuron-emulatord, and break its devices on purpose",
      .description = R"(Asks a daemon through the control channel, a socket beside that of its
devices (PATH.control), which answers the daemon's own user and root.

`clear` forgets what is armed, heals memory and brings links up; engines that hang need a reset,
chips without power `power on DEVICE`. After `reset`, whoever runs there gets an error for what is running.
While the power is off, every register of the device reads all ones and nothing completes, as if
the chip had been pulled; its processes get ENODEV, also after it is on again, until they
initialise anew.

`link down 5 1:5` takes the link between device 5 of the socket's node and device 5 of node 1 down,
where the daemon serves an UltraServer.

`writes` prints, for a device of a virtual machine, the last writes into the guest's memory: when,
the guest's physical address, bytes, what was written, by which DMA engine, queue and descriptor,
and how long behind the doorbell. It also works when the guest is gone, until the daemon ends.)",
      .sections = {{"FAULT PLANS", R"(A plan is text: one JSON object a line; empty lines and lines
that begin with # are skipped. The file that `NEURON_EMULATOR_FAULTS` names is armed when the
devices are made, in a daemon or in a process.

  {"at": "engine.instruction", "kind": "hang", "core": 0, "engine": "Pool", "n": 17}
  {"at": "dma.descriptor", "kind": "error", "engine": 3, "n": 17}
  {"at": "hbm", "kind": "correctable", "n": 5, "count": 2}
  {"at": "hbm", "kind": "uncorrectable", "address": "0x1000000", "bytes": 4096}
  {"at": "sram", "kind": "uncorrectable", "core": 1}
  {"at": "chip", "kind": "off", "chip": 0, "n": 1000}
  {"at": "link", "kind": "down", "a": 0, "b": 1}

engine.instruction :: An engine (core, engine) is about to execute an instruction: hang, off.

dma.descriptor :: A DMA engine (engine 0 to 33, queue) is about to move a descriptor's bytes: error,
off.

hbm :: DMA reads HBM (address, bytes; without them all of it): correctable, uncorrectable,
repairable (until the device is reset). What has failed stays bad.

sram :: The memory of a core (core); events are its instructions: correctable, uncorrectable.

chip :: The host accesses a register: off.

link :: Ends a and b: down. Where they are on two nodes of an UltraServer, a_node and b_node say which.

`n` is the event at which it happens, counted from 1 from when the fault is armed; `count` how many
events in a row (correctable errors); `chip` the device, without it each one for itself.)"}},
      .exit_statuses = {tools::kDoneStatus,
                        {1, "the daemon refused; its sentence is on standard error"},
                        tools::kUsageStatus,
                        {3, "no daemon can be asked"}},
      .environment = {{"NEURON_EMULATOR", "unix:PATH names the daemon, without --socket"}},
      .examples = {{"neuron-emulatorctl status --json", "devices, processes and faults"},
                   {"neuron-emulatorctl power off 3", "pull a chip"},
                   {"neuron-emulatorctl --socket DIR/nd writes 0",
                    "which of a device's writes has hit a page"}},
      .see_also = {"neuron-ls(1)", "neuron-doctor(1)"}};
}

}  // namespace neuron::emulatorctl

#endif
