// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/judge.h"

#include "ccom/simulator/estimate.h"

namespace neuron::ccom {

Judge make_judge(SimulationOptions options, uint64_t memory) {
  options.loads = false;
  return [options, memory](const Group& group, const Plan& plan,
                           uint64_t until_ps) mutable -> Result<uint64_t> {
    if (memory != 0) {
      NEURON_TRY(needed, estimate(group, plan, options));
      if (needed.memory_bytes > static_cast<double>(memory)) {
        return fail(CCOM_RESOURCE,
                    "a simulation needs about {} bytes of memory, and {} are allowed",
                    static_cast<uint64_t>(needed.memory_bytes), memory);
      }
    }
    SimulationOptions limited = options;
    limited.until_ps = until_ps;
    NEURON_TRY(simulated, simulate(group, plan, limited));
    return simulated.complete ? simulated.time_ps : until_ps + 1;
  };
}

}  // namespace neuron::ccom
