// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/layout.h"

namespace neuron::lowering {
namespace {

using Dimension = graph::Region::Dimension;
using Dimensions = std::vector<Dimension>;

bool is_dense(const graph::Node& node) {
  if (node.kind != graph::Kind::kMove || node.operands.size() != 1 || node.regions.size() != 1) {
    return false;
  }
  const graph::Region& region = node.regions[0];
  if (region.to != 0 || region.from != 0) return false;
  int64_t count = 1;
  for (const Dimension& d : region.dimensions) count *= d.size;
  return count == graph::elements_of(node.shape);
}

// Dimensions that reach over a multiple of `boundary` are split there.
std::optional<Dimensions> split_at(const Dimensions& dimensions, int64_t boundary) {
  Dimensions list;
  for (const Dimension& d : dimensions) {
    if (d.to_step >= boundary || d.to_step * d.size <= boundary) {
      list.push_back(d);
      continue;
    }
    const int64_t low = boundary / d.to_step;
    if (boundary % d.to_step != 0 || d.size % low != 0) return std::nullopt;
    list.push_back({d.size / low, boundary, d.from_step * low});
    list.push_back({low, d.to_step, d.from_step});
  }
  return list;
}

// The one stride of all dimensions with steps in [first, end), whose unit is `first`.
std::optional<int64_t> stride_of(const Dimensions& dimensions, int64_t first, int64_t end) {
  std::optional<int64_t> stride;
  for (const Dimension& d : dimensions) {
    if (d.size == 1 || d.to_step < first || d.to_step >= end) continue;
    const int64_t steps = d.to_step / first;
    if (d.to_step % first != 0 || d.from_step % steps != 0) return std::nullopt;
    if (stride && *stride != d.from_step / steps) return std::nullopt;
    stride = d.from_step / steps;
  }
  return stride.value_or(0);
}

}  // namespace

std::optional<Strides> strides_in(const graph::Graph& graph, graph::Value value,
                                  const Layout& layout) {
  const graph::Node& node = graph.nodes[static_cast<size_t>(value)];
  if (!is_dense(node) || layout.elements() != graph::elements_of(node.shape)) return std::nullopt;
  const int64_t row = layout.inner, outer = layout.rows * layout.inner;
  auto dimensions = split_at(node.regions[0].dimensions, outer);
  if (dimensions) dimensions = split_at(*dimensions, row);
  if (!dimensions) return std::nullopt;
  const auto o = stride_of(*dimensions, outer, INT64_MAX);
  const auto r = stride_of(*dimensions, row, outer);
  const auto i = stride_of(*dimensions, 1, row);
  if (!o || !r || !i) return std::nullopt;
  return Strides{*o, *r, *i};
}

bool is_broadcast(const graph::Graph& graph, graph::Value value) {
  const graph::Node& node = graph.nodes[static_cast<size_t>(value)];
  if (!is_dense(node)) return false;
  const Dimensions& d = node.regions[0].dimensions;
  return std::any_of(d.begin(), d.end(),
                     [](const Dimension& one) { return one.size > 1 && one.from_step == 0; });
}

}  // namespace neuron::lowering
