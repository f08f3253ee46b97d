// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-reset for --help and its manual page.
// Callers: its main(), tests. Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_RESET_MANUAL_H
#define TOOLS_NEURON_RESET_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::reset {

inline tools::Manual manual() {
  return {
      .name = "neuron-reset",
      .summary = "reset Neuron devices, and verify that they came back",
      .description =
          R"(Resets devices, each with all its cores, and tells every state when it is reached. Processes that hold
a device are named, and it is left alone. Otherwise all its cores are claimed while it is reset, so that
nobody gets one meanwhile. Afterwards memory is written and read back, and programs whose results are known
run on each core.

With `--force` a device is reset whoever holds it: the processes are not ended, but what they have running
on it fails.)",
      .sections =
          {{"STATES",
            R"(looking :: Is the device there, and who holds it?

resetting :: The driver was told to reset it.

returning :: Until the driver says that it is ready again; what else it says is told.

verifying :: Memory and copies, then programs on each core that nobody holds.

ready :: The end: the device was reset, and works.

refused :: The end: somebody holds the device, and it was left alone.

failed :: The end: there is no such device, it could not be reset, or it is not back in time.

faulty :: The end: it was reset, but does not work; what was found is told as by neuron-precheck(1).

unverified :: The end: it was reset by force, and others hold cores, which could not be tried.)"},
           {"OUTPUT",
            R"(text, ndjson and csv have a line for each state, at once. json is one document with all states at the
end, and the end of each device. Schemas are in share/neuron/schemas. A reader that goes away does not
stop a reset.)"}},
      .exit_statuses = {{0, "every device was reset, and works"},
                        {1, "one failed, or the result cannot be written"},
                        tools::kUsageStatus,
                        {3, "no permission to open the devices"},
                        {4, "one was refused, or is unverified"},
                        {5, "one is faulty"}},
      .environment = {tools::kEmulatorVariable},
      .examples = {{"neuron-reset --device 3", "one device"},
                   {"neuron-reset --all --format ndjson", "all of them, several side by side"},
                   {"neuron-reset --device 3 --force", "whoever holds it"}},
      .see_also = {"neuron-precheck(1)", "neuron-ls(1)", "neuron-emulatorctl(1)"}};
}

}  // namespace neuron::reset

#endif
