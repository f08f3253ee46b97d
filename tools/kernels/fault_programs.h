// SPDX-License-Identifier: Apache-2.0
//
// Programs that go wrong in one known way, for tests of what is then reported. No kernel set holds
// them. Callers: tests. Thread-safe: no state.
#ifndef TOOLS_KERNELS_FAULT_PROGRAMS_H_
#define TOOLS_KERNELS_FAULT_PROGRAMS_H_

#include "tools/kernels/kernels.h"

namespace neuron::kernels {

// PE waits for program semaphore 200, which nobody increments.
Neff deadlock();

// DVE writes 8 partitions from partition 8 (rule R1): a loader that checks operands refuses it.
Neff bad_partition();

// The same with the start partition in a register, so that it shows when the instruction issues:
// the third of DVE.
Neff bad_partition_register();

// Pool branches to itself.
Neff endless_loop();

// SP stores to an address where nothing is.
Neff bad_address();

// PE multiplies before any weights were loaded.
Neff no_weights();

// Activation executes an opcode that the instruction set does not list; refused at load.
Neff illegal_opcode();

}  // namespace neuron::kernels

#endif  // TOOLS_KERNELS_FAULT_PROGRAMS_H_
