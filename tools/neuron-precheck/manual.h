// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-precheck for --help and its manual page.
// Callers: its main(), tests. Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_PRECHECK_MANUAL_H
#define TOOLS_NEURON_PRECHECK_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::precheck {

inline tools::Manual manual() {
  return {
      .name = "neuron-precheck",
      .summary = "check Neuron devices before work is given to them",
      .description =
          R"(Works with every device and every free core as a program would, compares what comes back, and
names what is not right: device, core, engine, ring and address, what was found and expected, and
what to do. Cores that somebody holds are left alone, and counted as skipped.

Each part runs in a process of its own with a deadline for each step, so that an engine that hangs is
named and not waited for.)",
      .sections =
          {{"LEVELS",
            R"(1 :: Seconds: state, versions, links against the table of the instance type, error counters, samples
of HBM, copies of all cores, a program for each engine of each core, one collective.

2 :: Two minutes: more of HBM and with random contents, larger programs, their times against those of
the model of the chip, a program that must be reported as wrong, transfers between all pairs.

3 :: A quarter of an hour: all of HBM that is free, also by a march test (of an emulated device as much
as the host can spare), programs a hundred times, large collectives.

4 :: The checks of level 2, until the duration is over.

With `--duration` the others end in time, too: it is shared out among devices, memory, programs and
collectives, and what does not fit is left out, and told. Level 3 has 900 seconds.)"},
           {"CHECKS",
            R"(host.versions, device.state, device.links, device.errors, engine.state, core.busy :: What devices say of
themselves, before and after; error counters also around the work of each core.

memory.pattern, dma.copy, engine.program, engine.time, core.notifications :: Work of one device or core.

collectives.all_reduce, collectives.all_gather, collectives.all_to_all, dma.pairs :: Work of all free cores
in a row, by nccom-test(1).)"},
           {"ACTIONS",
            R"(none, driver_reload, reset_device, reboot, replace_instance :: What helps, mildest first.

Errors of HBM :: reset_device, by neuron-reset(1), if a reset may repair them, replace_instance if not. Programs
tell which it is, and counters from generation 3; their word counts for all errors that a device has in this
check. If nobody can tell, it is reset_device; what comes back afterwards needs another instance. Before
generation 3 the counter of a device also has what a reset has repaired since: level 3, which tries the memory,
makes it a warning if the memory is good.

Uncorrectable errors of SRAM, DMA engines that give up :: replace_instance.)"}},
      .exit_statuses =
          {{0, "nothing has failed; there may be warnings"},
           {1, "there is no device, or the result cannot be written"},
           tools::kUsageStatus,
           {3, "no permission to open the devices"},
           {4, "all cores of these devices are held by others: only the state was looked at"},
           {5, "something has failed"}},
      .environment = {tools::kEmulatorVariable, tools::kNoColorVariable,
                      tools::kForceColorVariable},
      .examples = {{"neuron-precheck", "before a program is started"},
                   {"neuron-precheck --level 2 --junit report.xml", "in a build server"},
                   {"neuron-precheck --level 4 --duration 86400 --format json", "for a day"},
                   {"neuron-precheck --device 3", "one device"}},
      .see_also = {"neuron-doctor(1)", "neuron-reset(1)", "nccom-test(1)"}};
}

}  // namespace neuron::precheck

#endif
