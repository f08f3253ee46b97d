// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-doctor for --help and its manual page.
// Callers: its main(), tests. Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_DOCTOR_MANUAL_H
#define TOOLS_NEURON_DOCTOR_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::doctor {

inline tools::Manual manual() {
  return {
      .name = "neuron-doctor",
      .summary = "say why Neuron devices do not work here, and what to do",
      .description =
          R"(Looks at everything that stands between a program and a device, changes nothing, takes no process
slot of a device, and prints a line for each thing it looked at: passed, a warning, failed, or
skipped, because there was nothing to look at. Below what is wrong is what was expected and what to
do.

It runs as any user: what only root may see is told as such. Where it is run by root, limits and
permissions are those of root; run it as the user, and in the unit or container, that has the
trouble.)",
      .sections =
          {{"CHECKS",
            R"(driver.pci, driver.module, driver.nodes, driver.permission :: The way to a device of the kernel
module: PCI function, module, device file, group.

driver.emulator :: Emulated devices: the instance type, or the daemon behind a socket.

devices.present, device.N.health, devices.health, cores.free, devices.numa :: Devices that answer;
their state, error counters, engines that hang, links, planted faults; who holds cores; NUMA nodes.

version.driver, version.runtime, version.libccom, version.libfabric :: What is installed, and the
providers of libfabric.

limit.memlock, limit.files, memory.available, memory.huge_pages, memory.shm, kernel.io_uring,
clock.synchronised :: What the kernel lets this process have.

path.programs, path.libraries, environment.variable :: Programs and libraries of other
installations in front of this one; variables that nothing reads, and what was probably meant.)"}},
      .exit_statuses = {{0, "done, whatever was found; with --check: nothing has failed"},
                        {1, "standard output cannot be written"},
                        tools::kUsageStatus,
                        {5, "with --check: something has failed; warnings are no failure"}},
      .environment = {tools::kEmulatorVariable, tools::kNoColorVariable,
                      tools::kForceColorVariable},
      .examples = {{"neuron-doctor", "all of it"},
                   {"neuron-doctor --problems", "what is wrong"},
                   {"neuron-doctor --check --format json", "for a health probe"},
                   {"setpriv --reuid nobody --clear-groups neuron-doctor", "as another user"}},
      .see_also = {"neuron-ls(1)", "neuron-emulatorctl(1)"}};
}

}  // namespace neuron::doctor

#endif
