// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-ls for --help and its manual page.
// Callers: its main(), tests. Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_LS_MANUAL_H
#define TOOLS_NEURON_LS_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::ls {

inline tools::Manual manual() {
  return {
      .name = "neuron-ls",
      .summary = "list Neuron devices, their cores, memory, links and processes",
      .description =
          R"(Lists the Neuron devices of this host, their place in it, and who holds them. It opens nothing
that counts against the process slots of a device and waits for no reset: every device is asked on
its own deadline (`--timeout`), and one that does not answer is listed with the reason.

Without a device it says why: no module, no permission (and which group has it), no daemon behind
`NEURON_EMULATOR`, an instance type that is not known.)",
      .sections =
          {{"OUTPUT",
            R"(The table and the array of `-j` are those of earlier tools: numa_node is text, connected_to is
null on a host with one device, memory_size is in bytes, nc_count counts logical cores.

`--format json` is one document (schema neuron-ls, version 2): versions, devices with state, health,
memory used, logical cores and the physical cores of each, links, error counters; processes with
their cores, memory and since when they hold a device; network devices. `ndjson` and `csv` have a
record for each device, `--matrix` one for each pair of devices. Numbers have no units: these are in
the names of the fields. Schemas are in share/neuron/schemas.)"},
           {"FIELDS",
            R"(Of `--query`: neuron_device, name, state, healthy, architecture, serial_number, bdf, numa_node,
cpu_affinity, nc_count, neuroncore_ids, logical_neuroncore_config, memory_total_bytes,
memory_used_bytes, power_percent, connected_to, mem_ecc_corrected, mem_ecc_uncorrected,
mem_ecc_repairable_uncorrected, sram_ecc_corrected, sram_ecc_uncorrected, pids, instance_type,
driver_version, error.)"}},
      .exit_statuses = {tools::kDoneStatus,
                        {1, "there is no device; standard error says why"},
                        tools::kUsageStatus,
                        {3, "there are devices, but this user may not open them"},
                        {4, "the devices, or the daemon, are too busy to answer"},
                        {5, "with --check: a device is not healthy"}},
      .environment = {tools::kEmulatorVariable, tools::kNoColorVariable,
                      tools::kForceColorVariable},
      .examples = {{"neuron-ls --topology", "table and drawing"},
                   {"neuron-ls -j | jq length", "number of devices"},
                   {"neuron-ls --query neuron_device,memory_used_bytes --format csv",
                    "memory used, for a script"},
                   {"neuron-ls --matrix --measure", "links, theoretical and measured"},
                   {"neuron-ls --check", "in a health probe"}},
      .see_also = {"neuron-top(1)", "neuron-monitor(1)", "neuron-doctor(1)", "nccom-test(1)"}};
}

}  // namespace neuron::ls

#endif
