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

#include <optional>
#include <vector>

#include "tools/compiler/lowering/workspace.h"

namespace neuron::lowering {

// Columns of a value in SBUF that are those of another one, row by row: from `first` on, dimensions
// innermost first; `to` are steps in the columns of the result, which they fill.
struct ColumnView {
  struct Step {
    int64_t size = 1, to = 0, from = 0;
  };
  int64_t first = 0;
  std::vector<Step> steps;
};

// What a region of a value in layout `from` is as a whole value in layout `to`; none if that is no
// view.
std::optional<ColumnView> view_of(const graph::Region& region, const Layout& to,
                                  const Layout& from);

// False if the move must go through HBM; nothing is emitted then.
bool emit_resident_move(Workspace& work, Value value);

}  // namespace neuron::lowering

#endif
