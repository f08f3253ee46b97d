// SPDX-License-Identifier: Apache-2.0
//
// Values that repeat a smaller one, as the factor of each channel or the bias of each column does:
// maps read the smaller one, and the repeated one never lies in HBM.
//
// Concept: the value is seen as rows of `inner` elements. Either each row repeats one number of the
// smaller value, or every row is the smaller value.
// Callers: lower(), the task of maps. Thread-safe: no state. Cannot fail.
#ifndef TOOLS_COMPILER_LOWERING_BROADCAST_H
#define TOOLS_COMPILER_LOWERING_BROADCAST_H

#include <cstdint>

#include "tools/compiler/graph/graph.h"

namespace neuron::lowering {

struct Broadcast {
  enum class Kind : uint8_t { kNone, kNumberOfRow, kRow };
  Kind kind = Kind::kNone;
  int64_t inner = 1;
  int64_t count = 1;  // numbers of the smaller value, which begin anew after as many rows
  graph::Value source = graph::kNone;
};

// kNone also for rows so short that an engine would spend its time on their beginnings.
Broadcast broadcast_of(const graph::Graph& graph, graph::Value value);

}  // namespace neuron::lowering

#endif
