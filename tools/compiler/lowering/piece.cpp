// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/piece.h"

namespace neuron::lowering {
namespace {

using graph::Function;

// Small arrays cost little, and what is rounded to a whole number next must not lie on its wrong
// side. The graph alone decides, so results do not depend on the plan.
bool divides_nearly(const Workspace& work, const Node& node) {
  constexpr int64_t kSmall = 4096;
  return node.function == Function::kDivide &&
         (graph::elements_of(node.shape) <= kSmall || work.is_rounded(node));
}

}  // namespace

const Operand& Piece::operand(Value value) {
  const auto found = values_.find(value);
  if (found != values_.end()) return found->second;
  Operand loaded;
  loaded.uniform = work_.uniform(value, loaded.number);
  if (!loaded.uniform) loaded.lane = exchange_.load(lanes_, value);
  return values_[value] = loaded;
}

Lane Piece::lane(Value value) {
  const Operand& found = operand(value);
  if (!found.uniform) return found.lane;
  const graph::Type type = work_.node(value).type;
  if (graph::is_real(type)) return lanes_.number(static_cast<float>(found.number));
  return lanes_.whole_number(
      static_cast<int32_t>(graph::truncated(graph::Type::kI64, found.number)));
}

Lane Piece::real_result(const Node& node, graph::Type type) {
  if (node.operands.size() == 1) {
    return rounded(lanes_, node.type, real_function(lanes_, node.function, lane(node.operands[0])));
  }
  const Operand a = operand(node.operands[0]), b = operand(node.operands[1]);
  if (graph::gives_bool(node.function)) return real_comparison(lanes_, node.function, a, b);
  if (divides_nearly(work_, node)) return rounded(lanes_, type, near_quotient(lanes_, a, b));
  // Two numbers give lanes of their own.
  if (a.uniform && b.uniform) {
    const Operand left{lanes_.number(static_cast<float>(a.number)), false, 0};
    return rounded(lanes_, type, real_function(lanes_, node.function, left, b));
  }
  return rounded(lanes_, type, real_function(lanes_, node.function, a, b));
}

Lane Piece::whole_result(const Node& node, graph::Type type) {
  const Lane a = lane(node.operands[0]);
  if (node.operands.size() == 1) {
    return wrapped(lanes_, node.type, whole_function(lanes_, node.function, type, a));
  }
  const Operand& second = operand(node.operands[1]);
  if (node.function == Function::kPower && second.uniform && second.number >= 0) {
    const auto exponent = graph::truncated(graph::Type::kI64, second.number);
    return wrapped(lanes_, type, whole_power(lanes_, a, exponent));
  }
  const Lane result = whole_function(lanes_, node.function, type, a, lane(node.operands[1]));
  return graph::gives_bool(node.function) ? result : wrapped(lanes_, type, result);
}

Lane Piece::result(const Node& node) {
  if (node.function == Function::kSelect) {
    return lanes_.select(lane(node.operands[0]), lane(node.operands[1]), lane(node.operands[2]));
  }
  const graph::Type type = work_.node(node.operands[0]).type;
  if (node.function == Function::kCast) {
    return cast(lanes_, node.type, type, lane(node.operands[0]));
  }
  return graph::is_real(type) ? real_result(node, type) : whole_result(node, type);
}

void Piece::compute(Value value, bool stored) {
  const Node& node = work_.node(value);
  TileAccess target;
  if (stored && is_simple(work_, node)) target = exchange_.target(value);
  if (target.present()) {
    // Operands come first: what they need is no result.
    for (const Value one : node.operands) operand(one);
    lanes_.redirect(target);
    written_[value] = true;
  }
  values_[value] = {result(node), false, 0};
}

void Piece::run(const MapGroup& group, const std::map<Value, size_t>& last_use) {
  for (size_t i = 0; i < group.members.size(); ++i) {
    const Value member = group.members[i];
    compute(member, group.stored[i]);
    if (group.stored[i] && !written_[member]) {
      exchange_.store(lanes_, member, values_.at(member).lane);
    }
    for (const Value one : work_.node(member).operands) {
      if (last_use.at(one) == i) values_.erase(one);
    }
    if (last_use.count(member) == 0) values_.erase(member);
  }
}

std::map<Value, size_t> last_uses(const Workspace& work, const MapGroup& group) {
  std::map<Value, size_t> last_use;
  for (size_t i = 0; i < group.members.size(); ++i) {
    for (const Value operand : work.node(group.members[i]).operands) last_use[operand] = i;
  }
  return last_use;
}

bool is_simple(const Workspace& work, const Node& node) {
  if (node.type != graph::Type::kF32 || work.node(node.operands[0]).type != graph::Type::kF32) {
    return false;
  }
  double a = 0, b = 0;
  switch (node.function) {
    case Function::kAdd:
    case Function::kSubtract:
    case Function::kMultiply:
    case Function::kMaximum:
    case Function::kMinimum:
      return node.operands[0] != node.operands[1] &&
             !(work.uniform(node.operands[0], a) && work.uniform(node.operands[1], b));
    case Function::kNegate:
    case Function::kAbsolute:
    case Function::kSqrt:
    case Function::kExp:
    case Function::kTanh:
    case Function::kErf:
    case Function::kSigmoid:
    case Function::kSoftplus:
      return true;
    default:
      return false;
  }
}

}  // namespace neuron::lowering
