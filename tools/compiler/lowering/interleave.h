// SPDX-License-Identifier: Apache-2.0
//
// Lines of HBM whose neighbours come from different places, as transposed convolutions and
// depth-to-space make them: they are put together in SBUF, because a transfer of single elements
// has a descriptor for each.
// Callers: the task of moves. Thread-safe: no. Fails: the program keeps the first error.
#ifndef TOOLS_COMPILER_LOWERING_INTERLEAVE_H
#define TOOLS_COMPILER_LOWERING_INTERLEAVE_H

#include "tools/compiler/lowering/workspace.h"

namespace neuron::lowering {

// Writes the elements of the move's regions to its place; elements between them have the fill.
// False: they are no such lines; nothing is emitted then.
bool emit_interleave(Workspace& work, const Node& node, const Buffer& to);

}  // namespace neuron::lowering

#endif
