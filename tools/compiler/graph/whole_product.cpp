// SPDX-License-Identifier: Apache-2.0
// Products of matrices of whole numbers. The device multiplies real numbers of 24 bits, so the sums
// of one product stay below 2^24: K is cut into parts, and wide numbers into bytes.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tools/compiler/graph/builder.h"

namespace neuron::graph {
namespace {

constexpr double kExact = 1 << 24;
// Sums of so few products are not worth a product of their own.
constexpr double kFewest = 16;

double range_of(Type type) {
  const int bits = static_cast<int>(8 * type_bytes(type));
  return type == Type::kBool ? 1 : std::ldexp(1.0, is_unsigned(type) ? bits : bits - 1);
}

// A constant without negative numbers, or one that is repeated.
bool is_mask(const Graph& graph, Value value) {
  const Node* node = &graph.nodes[static_cast<size_t>(value)];
  while (node->kind == Kind::kMove && node->operands.size() == 1 && node->fill >= 0) {
    node = &graph.nodes[static_cast<size_t>(node->operands[0])];
  }
  if (node->kind != Kind::kConstant) return false;
  const auto& list = node->constant->integers;
  return std::all_of(list.begin(), list.end(), [](int64_t number) { return number >= 0; });
}

// What no element of the value exceeds in size.
double bound_of(const Graph& graph, Value value, int depth = 0) {
  const Node& node = graph.nodes[static_cast<size_t>(value)];
  double bound = range_of(node.type);
  const auto of = [&](size_t operand) {
    const Value wanted = node.operands[operand];
    const Type type = graph.nodes[static_cast<size_t>(wanted)].type;
    return is_real(type) ? range_of(node.type) : bound_of(graph, wanted, depth + 1);
  };
  constexpr int kDeepest = 8;
  if (node.kind == Kind::kConstant) {
    double largest = 0;
    for (const int64_t number : node.constant->integers) {
      largest = std::max(largest, std::fabs(static_cast<double>(number)));
    }
    return largest;
  }
  if (depth == kDeepest) return bound;
  if (node.kind == Kind::kMove) {
    double largest = std::fabs(node.fill);
    for (size_t i = 0; i < node.operands.size(); ++i) largest = std::max(largest, of(i));
    bound = std::min(bound, largest);
  } else if (node.kind == Kind::kMap && node.function == Function::kCast) {
    bound = std::min(bound, of(0));
  } else if (node.kind == Kind::kMap &&
             (node.function == Function::kAdd || node.function == Function::kSubtract)) {
    bound = std::min(bound, of(0) + of(1));
  } else if (node.kind == Kind::kMap && node.function == Function::kAnd &&
             is_mask(graph, node.operands[1])) {
    bound = std::min(bound, of(1));
  }
  return bound;
}

}  // namespace

Value Builder::whole_product(Value a, Value b, bool turned) {
  if (!usable({a, b})) return kNone;
  const double left = bound_of(graph(), a), right = bound_of(graph(), b);
  const int64_t depth = shape(b)[1];
  const double most = std::floor(kExact / std::max(1.0, left * right));
  if (static_cast<double>(depth) <= most) return plain_product(a, b, turned);
  Value sum = kNone;
  const auto add_to_sum = [&](Value part) { sum = sum == kNone ? part : add(sum, part); };
  if (most >= kFewest) {
    const auto each = static_cast<int64_t>(most);
    for (int64_t first = 0; first < depth && ok(); first += each) {
      const Slice part{first, std::min(each, depth - first), 1};
      const Value right = slice_axis(b, 1, part);
      add_to_sum(plain_product(slice_axis(a, turned ? 1 : 2, part), right, turned));
    }
    return sum;
  }
  // The bytes of the wider operand; what they weigh is put back with the low 32 bits.
  constexpr double kByte = 256;
  const bool cuts_left = left >= right;
  double weight = 1;
  for (int byte = 0; byte < 4 && ok(); ++byte, weight *= kByte) {
    const Value wide = cuts_left ? a : b;
    const Value part = map(Function::kAnd, map(Function::kShiftRight, wide, 8.0 * byte), kByte - 1);
    const Value product = whole_product(cuts_left ? part : a, cuts_left ? b : part, turned);
    add_to_sum(map(Function::kMultiply, product, weight));
  }
  return sum;
}

}  // namespace neuron::graph
