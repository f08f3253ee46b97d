// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/broadcast.h"

namespace neuron::lowering {
namespace {

constexpr int64_t kLeastInner = 32;

using Dimensions = std::vector<graph::Region::Dimension>;

// Whether the dimensions, the outermost first, write `elements` without gaps.
bool is_dense(const Dimensions& dimensions, int64_t elements) {
  int64_t step = 1;
  for (size_t i = dimensions.size(); i-- > 0;) {
    if (dimensions[i].to_step != step) return false;
    step *= dimensions[i].size;
  }
  return step == elements;
}

}  // namespace

Broadcast broadcast_of(const graph::Graph& graph, graph::Value value) {
  const graph::Node& node = graph.nodes[static_cast<size_t>(value)];
  if (node.kind != graph::Kind::kMove || node.operands.size() != 1 || node.regions.size() != 1) {
    return {};
  }
  const graph::Region& region = node.regions[0];
  const Dimensions& d = region.dimensions;
  if (d.size() < 2 || d.size() > 3 || region.to != 0 || region.from != 0 ||
      !is_dense(d, graph::elements_of(node.shape))) {
    return {};
  }
  const graph::Region::Dimension& last = d.back();
  if (last.size < kLeastInner) return {};
  const bool repeats_all = d[0].from_step == 0;
  if (d.size() == 2 && repeats_all && last.from_step == 1) {
    return {Broadcast::Kind::kRow, last.size, last.size, node.operands[0]};
  }
  const graph::Region::Dimension& rows = d[d.size() - 2];
  if (last.from_step == 0 && rows.from_step == 1 && (d.size() == 2 || repeats_all)) {
    return {Broadcast::Kind::kNumberOfRow, last.size, rows.size, node.operands[0]};
  }
  return {};
}

}  // namespace neuron::lowering
