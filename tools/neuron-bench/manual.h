// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-bench for --help and its manual page.
// Callers: its main(), tests. Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_BENCH_MANUAL_H
#define TOOLS_NEURON_BENCH_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::bench {

inline tools::Manual manual() {
  return {
      .name = "neuron-bench",
      .summary = "measure executions, memory and matrix products of Neuron cores",
      .description =
          R"(Times are given twice: what the device took, on its own clock (of an emulated device: the time that
its model of a chip gives, the same on every host), and what passed on this host.

`exec` runs a NEFF, on one core and then on all of them: L is the latency that a caller sees, NCL that
of the device, both as percentiles. `memory` copies between host and device, within a core's memory
and between the first and the last core. `matmul` multiplies square matrices; on Inferentia1, which
runs no programs, it gives the times of the published rates, and nothing for other types.

It uses the cores that `NEURON_RT_VISIBLE_CORES` or `NEURON_RT_NUM_CORES` names, all of them otherwise.)",
      .sections =
          {{"FILES",
            R"(With `--output-directory`, exec writes info.json (percentiles of latency and nc_latency in
microseconds, throughput in executions per second), latency_data.json and nc_latency_data.json.)"}},
      .exit_statuses = {tools::kDoneStatus,
                        {1, "there is no device, or a measurement failed; standard error says why"},
                        tools::kUsageStatus,
                        {3, "no permission to open the devices"},
                        {4, "somebody holds the cores"}},
      .environment = {tools::kEmulatorVariable},
      .examples = {{"neuron-bench exec -n 1000 model.neff", "latency on one core and on all"},
                   {"neuron-bench memory --sizes 4KB 1MB 64MB", "bandwidth"},
                   {"neuron-bench matmul --types bf16 fp32 --sizes 1024", "matrix products"}},
      .see_also = {"nccom-test(1)", "neuron-top(1)"}};
}

}  // namespace neuron::bench

#endif
