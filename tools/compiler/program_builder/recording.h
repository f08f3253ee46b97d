// SPDX-License-Identifier: Apache-2.0
//
// The operations of a program before they have a place: single ones, and the loops, branches and
// calls that they are part of.
// Callers: Schedule fills these, Placement reads them. Plain values, thread-safe. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_RECORDING_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_RECORDING_H

#include <cstdint>
#include <vector>

#include "tools/compiler/program_builder/ordering.h"
#include "tools/compiler/program_builder/program_parts.h"

namespace neuron::builder {

// A piece of work before it has a place: an instruction, or a transfer that one starts.
struct Item {
  unsigned engine = 0;
  Step step;
  std::vector<Region> reads, writes;
  bool moves = false;  // DMA reads and writes, not the engine
  int32_t slot = -1;
  Point point;  // Where it was placed last
};

struct Node {
  enum class Kind : uint8_t { kItem, kLoop, kBranch, kWhile, kFunction, kCall, kBarrier };
  Kind kind = Kind::kItem;
  Item item;
  Block block;
  AddressField condition;             // kWhile
  std::vector<Node> body, otherwise;  // The latter of a branch
  bool in_otherwise = false;          // While it is written
};

}  // namespace neuron::builder

#endif
