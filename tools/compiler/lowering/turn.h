// SPDX-License-Identifier: Apache-2.0
//
// Regions whose rows become columns, from HBM to HBM through SBUF: PE turns blocks of 128 x 128, so
// that transfers read and write runs of up to 2 KiB and not single elements.
// Callers: move_task. Thread-safe: no state of its own. Fails: as the program builder does.
#ifndef TOOLS_COMPILER_LOWERING_TURN_H
#define TOOLS_COMPILER_LOWERING_TURN_H

#include <cstdint>
#include <vector>

#include "tools/compiler/graph/graph.h"
#include "tools/compiler/lowering/workspace.h"

namespace neuron::lowering {

// Where a region begins, in elements.
struct Corner {
  const Buffer& buffer;
  int64_t first = 0;
};

// Moves the region if it is one of these and large enough to be worth it; else nothing, and false.
bool emit_turn(Workspace& work, const Corner& to, const Corner& from,
               const std::vector<graph::Region::Dimension>& dimensions);

}  // namespace neuron::lowering

#endif
