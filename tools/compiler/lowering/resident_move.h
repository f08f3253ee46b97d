// SPDX-License-Identifier: Apache-2.0
//
// Moves of values that stay in SBUF.
//
// Concept: what keeps every element on its partition is nothing but another name for the same
// memory, or copies of columns by an engine; blocks of rows move to other partitions where the
// rules of operands allow it; a transpose goes through PE, block by block. Callers: the task of
// moves. Thread-safe: no. Fails: the program keeps the first error.
#ifndef TOOLS_COMPILER_LOWERING_RESIDENT_MOVE_H
#define TOOLS_COMPILER_LOWERING_RESIDENT_MOVE_H

#include "tools/compiler/lowering/workspace.h"

namespace neuron::lowering {

// False if the move must go through HBM; nothing is emitted then.
bool emit_resident_move(Workspace& work, Value value);

}  // namespace neuron::lowering

#endif
