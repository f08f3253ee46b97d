// SPDX-License-Identifier: Apache-2.0
//
// Which accesses of a loop's body overlap others not only in the same round or in neighbouring
// ones, so that all memory that they reach must count.
//
// Accesses that move alike are compared by the memory that they lie in together: if that is no
// longer than two rounds' way, none of them is looked at. All others are found by their place.
// Callers: Placement. Thread-safe: no state. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_DISTANT_ROUNDS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_DISTANT_ROUNDS_H

#include <cstdint>
#include <vector>

#include "tools/compiler/program_builder/ordering.h"

namespace neuron::builder {

struct LoopAccess {
  Region region;  // In the first round
  bool write = false;
};

// By access. An access that does not move reaches no more than it is, so it counts as near.
std::vector<bool> meet_in_distant_rounds(const std::vector<LoopAccess>& accesses, uint32_t rounds);

}  // namespace neuron::builder

#endif
