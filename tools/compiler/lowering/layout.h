// SPDX-License-Identifier: Apache-2.0
//
// How the elements of a value lie in SBUF.
//
// Concept: a value is seen as [outer, rows, inner]. Row r of every outer lies on partition r % 128
// of tile r / 128, whose columns are [outer, inner]. So the rows of a matrix, the channels of an
// image and the tokens of all heads each have a partition of their own, and a transpose that
// exchanges what lies in the columns moves nothing. Callers: residents, tasks. Thread-safe: values.
// Cannot fail.
#ifndef TOOLS_COMPILER_LOWERING_LAYOUT_H
#define TOOLS_COMPILER_LOWERING_LAYOUT_H

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tools/compiler/graph/graph.h"

namespace neuron::lowering {

struct Layout {
  static constexpr int64_t kLanes = 128;
  // Instructions with fewer columns take no less time. So tiles that have no more of them lie in
  // one row, and an instruction takes several.
  static constexpr int64_t kFewColumns = 64;
  int64_t outer = 1, rows = 1, inner = 1;

  bool operator==(const Layout&) const = default;
  int64_t elements() const { return outer * rows * inner; }
  int64_t columns() const { return outer * inner; }
  int64_t tiles() const { return (rows + kLanes - 1) / kLanes; }
  uint32_t parts(int64_t tile) const {
    return static_cast<uint32_t>(std::min(kLanes, rows - tile * kLanes));
  }
};

// Element [o, r, i] of a value is element o * outer + r * row + i * inner of another one.
struct Strides {
  int64_t outer = 0, row = 0, inner = 0;
};

// Of a move that is one dense region from the first element of its operand on; none for others, and
// where a dimension of the region does not keep to those of the layout.
std::optional<Strides> strides_in(const graph::Graph& graph, graph::Value value,
                                  const Layout& layout);

// A move whose only region repeats elements of its operand.
bool is_broadcast(const graph::Graph& graph, graph::Value value);

}  // namespace neuron::lowering

#endif
