// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/row_numbers.h"

#include <cstring>
#include <set>

namespace neuron::lowering {
namespace {

using graph::Graph;
using graph::Kind;
using graph::Node;
using graph::Value;

constexpr int64_t kMostColumns = 1024;
// Fewer rows are one short transfer.
constexpr int64_t kLeastRows = 32;

// The constant of which the value repeats a number along each row; none if it does not.
Value numbers_of(const Graph& graph, Value value) {
  const Node& node = graph.nodes[static_cast<size_t>(value)];
  if (!is_broadcast(graph, value) || node.shape.size() < 2 || node.type != graph::Type::kF32) {
    return graph::kNone;
  }
  const Value small = node.operands[0];
  const Node& numbers = graph.nodes[static_cast<size_t>(small)];
  if (numbers.kind != Kind::kConstant || numbers.type != graph::Type::kF32) return graph::kNone;
  const size_t rows = node.shape.size() > 2 ? 1 : 0;
  Layout layout{rows == 1 ? node.shape[0] : 1, node.shape[rows], 1};
  if (layout.rows < kLeastRows || graph::elements_of(numbers.shape) != layout.rows) {
    return graph::kNone;
  }
  layout.inner = graph::elements_of(node.shape) / layout.outer / layout.rows;
  const auto strides = strides_in(graph, value, layout);
  const bool each = strides && (strides->outer == 0 || layout.outer == 1) && strides->row == 1 &&
                    (strides->inner == 0 || layout.inner == 1);
  return each ? small : graph::kNone;
}

}  // namespace

int64_t number_columns(const Graph& graph, Value value) {
  const Node& node = graph.nodes[static_cast<size_t>(value)];
  return Layout{1, graph::elements_of(node.shape), 1}.tiles();
}

std::vector<Value> row_numbers(const Graph& graph, const std::vector<bool>& needed) {
  std::vector<Value> list;
  std::set<Value> listed;
  int64_t columns = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed[i] || graph.nodes[i].kind != Kind::kMap) continue;
    for (const Value operand : graph.nodes[i].operands) {
      const Value small = numbers_of(graph, operand);
      if (small == graph::kNone || listed.count(small) != 0) continue;
      const int64_t more = number_columns(graph, small);
      if (columns + more > kMostColumns) return list;
      columns += more;
      listed.insert(small);
      list.push_back(small);
    }
  }
  return list;
}

std::vector<uint8_t> number_bytes(const Graph& graph, const std::vector<Value>& values) {
  std::vector<float> numbers;
  for (int64_t lane = 0; lane < Layout::kLanes; ++lane) {
    for (const Value value : values) {
      const auto& reals = graph.nodes[static_cast<size_t>(value)].constant->reals;
      for (int64_t tile = 0; tile < number_columns(graph, value); ++tile) {
        const auto row = static_cast<size_t>(tile * Layout::kLanes + lane);
        numbers.push_back(row < reals.size() ? static_cast<float>(reals[row]) : 0);
      }
    }
  }
  std::vector<uint8_t> bytes(numbers.size() * sizeof(float));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

}  // namespace neuron::lowering
