// SPDX-License-Identifier: Apache-2.0
//
// Programs that fail in one known way, for tests of the report. They belong to no kernel set.
// Callers: tests. Thread-safe: no state.
#ifndef TOOLS_COMPILER_KERNELS_FAULT_PROGRAMS_H
#define TOOLS_COMPILER_KERNELS_FAULT_PROGRAMS_H

#include "tools/compiler/kernels/kernels.h"

namespace neuron::kernels {

// PE waits for program semaphore 200, which nobody increments.
Neff deadlock();

// DVE writes 8 partitions from partition 8 (rule R1): a loader that checks operands refuses it.
Neff bad_partition();

// The same with the start partition in a register, so the error is found only when the instruction,
// DVE's third, issues.
Neff bad_partition_register();

// Pool branches to itself.
Neff endless_loop();

// SP stores to an address where nothing is.
Neff bad_address();

// PE multiplies before any weights were loaded.
Neff no_weights();

// The following are trapped by strict mode. DVE reads 17 columns of a tile of which it has written
// 16.
Neff unwritten_read();

// DVE reads a tile that Pool writes, without waiting for it.
Neff unordered_read();

// DVE overwrites a tile into which a transfer is under way.
Neff unordered_transfer();

// DVE and Activation write the same bytes of PSUM.
Neff psum_collision();

// PE accumulates onto PSUM that DVE has written.
Neff foreign_accumulation();

// Activation takes the logarithm of 0, which DVE has written.
Neff outside_domain();

// A matmul whose result crosses the end of a PSUM bank; refused at load.
Neff past_the_bank();

// Activation executes an opcode that the instruction set does not list; refused at load.
Neff illegal_opcode();

}  // namespace neuron::kernels

#endif
