// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/piece.h"

#include <algorithm>
#include <cmath>

#include "tools/compiler/lowering/alu.h"

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

// The operation of real arithmetic that tensors and numbers have alike.
bool is_arithmetic(Function function) {
  return function == Function::kAdd || function == Function::kSubtract ||
         function == Function::kMultiply || function == Function::kMaximum ||
         function == Function::kMinimum;
}

}  // namespace

const Operand& Piece::operand(Value value) {
  const auto found = values_.find(value);
  if (found != values_.end()) return found->second;
  const auto waiting = waiting_.find(value);
  if (waiting != waiting_.end()) {
    const auto [from, step] = waiting->second;
    waiting_.erase(waiting);
    return values_[value] = {lanes_.stepped(from, step), false, 0};
  }
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
    const Lane no = lane(node.operands[2]), yes = lane(node.operands[1]);
    return lanes_.select(lane(node.operands[0]), yes, no);
  }
  const graph::Type type = work_.node(node.operands[0]).type;
  if (node.function == Function::kCast) {
    return cast(lanes_, node.type, type, lane(node.operands[0]));
  }
  return graph::is_real(type) ? real_result(node, type) : whole_result(node, type);
}

std::optional<builder::ScalarArgument> Piece::scalar(Value value) {
  if (waiting_.count(value) != 0) return std::nullopt;
  const Operand& found = operand(value);
  if (found.uniform) return builder::ScalarArgument(static_cast<float>(found.number));
  if (found.lane.column.present()) return builder::ScalarArgument(found.lane.column);
  return std::nullopt;
}

std::optional<Piece::Stepped> Piece::stepped(const Node& node) {
  const auto is_f32 = [&](Value value) { return work_.node(value).type == graph::Type::kF32; };
  if (node.type != graph::Type::kF32 || node.function == Function::kSelect ||
      !std::all_of(node.operands.begin(), node.operands.end(), is_f32)) {
    return std::nullopt;
  }
  const Value a = node.operands[0];
  if (node.function == Function::kNegate && !scalar(a)) return Stepped{a, {NEURON_ALU_MUL, -1.0F}};
  if (node.operands.size() != 2) return std::nullopt;
  const Value b = node.operands[1];
  if (node.function == Function::kDivide && !divides_nearly(work_, node)) {
    const auto divisor = scalar(b);
    if (!divisor || !divisor->is_number || !std::isnormal(1 / divisor->value) || scalar(a)) {
      return std::nullopt;
    }
    return Stepped{a, {NEURON_ALU_MUL, 1 / divisor->value}};
  }
  if (!is_arithmetic(node.function)) return std::nullopt;
  const auto left = scalar(a), right = scalar(b);
  if (left.has_value() == right.has_value()) return std::nullopt;
  const uint8_t op = alu_of(node.function);
  if (right) return Stepped{a, {op, *right}};
  const bool matters = node.function == Function::kSubtract;
  return Stepped{b, {op, matters ? builder::reversed(*left) : *left}};
}

std::optional<Pair> Piece::pair(const Node& node) {
  if (const auto second = stepped(node)) {
    const auto first = waiting_.find(second->from);
    if (first == waiting_.end()) return std::nullopt;
    return Pair{first->second.from, first->second.step, second->step, false, false, {}};
  }
  if (!is_arithmetic(node.function) || node.type != graph::Type::kF32) return std::nullopt;
  const Value a = node.operands[0], b = node.operands[1];
  const bool left = waiting_.count(a) != 0;
  if (a == b || (!left && waiting_.count(b) == 0)) return std::nullopt;
  const Lane other = lane(left ? b : a);
  const Waiting& first = waiting_.at(left ? a : b);
  return Pair{first.from, first.step, {alu_of(node.function), {}}, true, !left, other};
}

// A function of Activation takes a product or a sum on its way in.
bool Piece::takes_step(const Node& node) const {
  if (!activation_of(node.function)) return false;
  const auto waiting = waiting_.find(node.operands[0]);
  return waiting != waiting_.end() && Lanes::enters_activation(waiting->second.step);
}

// `once`: one later member reads it, and nobody else.
void Piece::compute(Value value, bool stored, bool once) {
  const Node& node = work_.node(value);
  const std::optional<Pair> both = work_.resident() ? pair(node) : std::nullopt;
  if (!both && once && work_.resident()) {
    if (const auto step = stepped(node)) {
      waiting_[value] = {lane(step->from), step->step};
      return;
    }
  }
  TileAccess target;
  if (stored && is_simple(work_, node)) target = exchange_.target(value);
  if (target.present()) {
    // Operands come first: what they need is no result.
    for (const Value one : node.operands) {
      if (waiting_.count(one) == 0) operand(one);
    }
    if (!both && !takes_step(node)) {
      for (const Value one : node.operands) operand(one);
    }
    lanes_.redirect(target);
    written_[value] = true;
  }
  if (both) {
    values_[value] = {lanes_.paired(*both), false, 0};
    return;
  }
  if (takes_step(node)) {
    const Waiting& before = waiting_.at(node.operands[0]);
    values_[value] = {lanes_.activate(*activation_of(node.function), before.from, before.step),
                      false, 0};
    return;
  }
  values_[value] = {result(node), false, 0};
}

void Piece::run(const MapGroup& group, const std::map<Value, size_t>& last_use) {
  std::map<Value, size_t> reads;
  for (const Value member : group.members) {
    for (const Value one : work_.node(member).operands) ++reads[one];
  }
  for (size_t i = 0; i < group.members.size(); ++i) {
    const Value member = group.members[i];
    compute(member, group.stored[i], !group.stored[i] && reads[member] == 1);
    if (group.stored[i] && !written_[member]) {
      exchange_.store(lanes_, member, values_.at(member).lane);
    }
    for (const Value one : work_.node(member).operands) {
      if (last_use.at(one) != i) continue;
      values_.erase(one);
      waiting_.erase(one);
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
