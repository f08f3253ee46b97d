// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_turn.h"

namespace neuron::runtime {

Result<CoreTurn> CoreTurn::take(Core& core) {
  const bool waits = !core.turn.try_lock();
  if (waits && !core.turn.lock(base::Deadline::after(core.turn_limit()))) {
    return fail(NRT_TIMEOUT,
                "device {} core {} was busy with other executions for {} s "
                "(2 x NEURON_RT_EXEC_TIMEOUT)",
                core.device().index(), core.number(), core.turn_limit().count());
  }
  return CoreTurn(core, waits);
}

}  // namespace neuron::runtime
