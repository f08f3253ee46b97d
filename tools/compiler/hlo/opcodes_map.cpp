// SPDX-License-Identifier: Apache-2.0
// Opcodes that compute each element alone.
#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

template <Function kFunction>
Values unary(Step& s) {
  return {s.b.map(kFunction, s.in(0))};
}

template <Function kFunction>
Values binary(Step& s) {
  return {s.b.map(kFunction, s.in(0), s.in(1))};
}

// In the total order NaN equals NaN and is larger than all other numbers. Signs of zeros and of NaN
// have no order here.
Value compared(Step& s, Function function, Value a, Value c) {
  const Value plain = s.b.map(function, a, c);
  if (s.instruction.comparison_type() != "TOTALORDER" || !s.b.ok() ||
      !graph::is_real(s.b.type(a))) {
    return plain;
  }
  const Value left = s.b.map(Function::kIsNan, a), right = s.b.map(Function::kIsNan, c);
  const auto either = [&](Value x, Value y) { return s.b.map(Function::kOr, x, y); };
  const auto both = [&](Value x, Value y) { return s.b.map(Function::kAnd, x, y); };
  const auto no = [&](Value x) { return s.b.map(Function::kNot, x); };
  switch (function) {
    case Function::kEqual:
      return either(plain, both(left, right));
    case Function::kNotEqual:
      return both(plain, no(both(left, right)));
    case Function::kLess:
      return either(plain, both(no(left), right));
    case Function::kLessOrEqual:
      return either(plain, right);
    case Function::kGreater:
      return either(plain, both(left, no(right)));
    default:
      return either(plain, left);
  }
}

Values compare(Step& s) {
  const std::string& way = s.instruction.comparison_direction();
  constexpr std::pair<const char*, Function> kWays[] = {
      {"EQ", Function::kEqual},   {"NE", Function::kNotEqual},
      {"LT", Function::kLess},    {"LE", Function::kLessOrEqual},
      {"GT", Function::kGreater}, {"GE", Function::kGreaterOrEqual}};
  for (const auto& [name, function] : kWays) {
    if (way == name) return {compared(s, function, s.in(0), s.in(1))};
  }
  return {s.b.fail("the comparison \"{}\"", base::escaped(way))};
}

Values convert(Step& s) {
  const auto type = type_of(s.instruction.shape().element_type());
  if (!type) {
    return {s.b.fail("a conversion to element type {}",
                     element_type_text(s.instruction.shape().element_type()))};
  }
  return {s.b.cast(s.in(0), *type)};
}

Values select(Step& s) { return {s.b.select(s.in(0), s.in(1), s.in(2))}; }

Values clamp(Step& s) {
  return {s.b.map(Function::kMinimum, s.b.map(Function::kMaximum, s.in(1), s.in(0)), s.in(2))};
}

Values reciprocal_root(Step& s) {
  const Value root = s.b.map(Function::kSqrt, s.in(0));
  return {s.b.divide(s.b.scalar(s.b.type(root), 1), root)};
}

// Near 0 the difference has few digits left; there it is a polynomial.
Values exponential_minus_one(Step& s) {
  const Value x = s.in(0);
  if (!s.b.ok()) return {graph::kNone};
  Value sum = s.b.scalar(s.b.type(x), 1);
  for (const double divisor : {7, 6, 5, 4, 3, 2}) {
    const Value term = s.b.map(Function::kMultiply, x, 1 / divisor);
    sum = s.b.map(Function::kAdd, s.b.multiply(term, sum), 1.0);
  }
  const Value near = s.b.multiply(x, sum);
  const Value far = s.b.map(Function::kSubtract, s.b.map(Function::kExp, x), 1.0);
  const Value small = s.b.map(Function::kLess, s.b.map(Function::kAbsolute, x), 0.5);
  return {s.b.select(small, near, far)};
}

// What 1 + x loses by rounding, its logarithm loses in the same proportion near 0.
Values log_plus_one(Step& s) {
  const Value x = s.in(0);
  if (!s.b.ok()) return {graph::kNone};
  const Value one_more = s.b.map(Function::kAdd, x, 1.0);
  const Value kept = s.b.map(Function::kSubtract, one_more, 1.0);
  const Value log = s.b.map(Function::kLog, one_more);
  const Value nothing = s.b.map(Function::kEqual, kept, 0.0);
  const Value divisor = s.b.select(nothing, s.b.scalar(s.b.type(x), 1), kept);
  const Value near = s.b.select(nothing, x, s.b.multiply(log, s.b.divide(x, divisor)));
  const Value small = s.b.map(Function::kLess, s.b.map(Function::kAbsolute, x), 0.5);
  return {s.b.select(small, near, log)};
}

Values cube_root(Step& s) {
  const Value x = s.in(0);
  const Value size = s.b.map(Function::kPower, s.b.map(Function::kAbsolute, x), 1.0 / 3);
  return {s.b.multiply(s.b.map(Function::kSign, x), size)};
}

// Half away from zero.
Values round_away(Step& s) {
  const Value x = s.in(0);
  const Value size = s.b.map(Function::kAbsolute, x), whole = s.b.map(Function::kFloor, size);
  const Value up = s.b.map(Function::kGreaterOrEqual, s.b.subtract(size, whole), 0.5);
  const Value near = s.b.add(whole, s.b.cast(up, s.b.type(x)));
  return {s.b.multiply(s.b.map(Function::kSign, x), near)};
}

// Bits that come in are those of the sign.
Values shift_with_sign(Step& s) {
  const Value x = s.in(0), count = s.in(1);
  if (!s.b.ok()) return {graph::kNone};
  if (graph::is_real(s.b.type(x)) || graph::is_unsigned(s.b.type(x))) {
    return {s.b.fail("an arithmetic shift of {}", graph::type_name(s.b.type(x)))};
  }
  const Value negative = s.b.map(Function::kLess, x, 0.0);
  const Value turned = s.b.select(negative, s.b.map(Function::kNot, x), x);
  const Value shifted = s.b.map(Function::kShiftRight, turned, count);
  return {s.b.select(negative, s.b.map(Function::kNot, shifted), shifted)};
}

Values is_finite(Step& s) {
  const Value x = s.in(0);
  const Value infinite = s.b.map(Function::kIsInf, x);
  const Value either = s.b.map(Function::kOr, s.b.map(Function::kIsNan, x), infinite);
  return {s.b.map(Function::kNot, either)};
}

// The angle of y / x in the half plane of positive x; half a turn more or less in the other.
Values arctangent_2(Step& s) {
  const Value y = s.in(0), x = s.in(1);
  constexpr double kHalfTurn = 3.141592653589793;
  const Type type = s.b.type(y);
  const auto number = [&](double value) { return s.b.scalar(type, value); };
  const Value zero = s.b.map(Function::kEqual, x, 0.0);
  const Value angle = s.b.map(Function::kAtan, s.b.divide(y, s.b.select(zero, number(1), x)));
  const Value below = s.b.map(Function::kLess, y, 0.0);
  const Value up = number(kHalfTurn);
  const Value turn = s.b.select(below, number(-kHalfTurn), up);
  const Value other = s.b.add(angle, turn);
  const Value turned = s.b.select(s.b.map(Function::kLess, x, 0.0), other, angle);
  const Value level = s.b.map(Function::kMultiply, s.b.map(Function::kSign, y), kHalfTurn / 2);
  return {s.b.select(zero, level, turned)};
}

constexpr Opcode kMapOpcodes[] = {
    {"abs", unary<Function::kAbsolute>},
    {"add", binary<Function::kAdd>},
    {"and", binary<Function::kAnd>},
    {"atan2", arctangent_2},
    {"cbrt", cube_root},
    {"ceil", unary<Function::kCeil>},
    {"clamp", clamp},
    {"compare", compare},
    {"convert", convert},
    {"cosine", unary<Function::kCos>},
    {"divide", binary<Function::kDivide>},
    {"erf", unary<Function::kErf>},
    {"exponential", unary<Function::kExp>},
    {"exponential-minus-one", exponential_minus_one},
    {"floor", unary<Function::kFloor>},
    {"is-finite", is_finite},
    {"log", unary<Function::kLog>},
    {"log-plus-one", log_plus_one},
    {"logistic", unary<Function::kSigmoid>},
    {"maximum", binary<Function::kMaximum>},
    {"minimum", binary<Function::kMinimum>},
    {"multiply", binary<Function::kMultiply>},
    {"negate", unary<Function::kNegate>},
    {"not", unary<Function::kNot>},
    {"or", binary<Function::kOr>},
    {"power", binary<Function::kPower>},
    {"remainder", binary<Function::kRemainder>},
    {"round-nearest-afz", round_away},
    {"round-nearest-even", unary<Function::kRound>},
    {"rsqrt", reciprocal_root},
    {"select", select},
    {"shift-left", binary<Function::kShiftLeft>},
    {"shift-right-arithmetic", shift_with_sign},
    {"shift-right-logical", binary<Function::kShiftRight>},
    {"sign", unary<Function::kSign>},
    {"sine", unary<Function::kSin>},
    {"sqrt", unary<Function::kSqrt>},
    {"subtract", binary<Function::kSubtract>},
    {"tan", unary<Function::kTan>},
    {"tanh", unary<Function::kTanh>},
    {"xor", binary<Function::kXor>},
};

}  // namespace

std::span<const Opcode> map_opcodes() { return kMapOpcodes; }

}  // namespace neuron::hlo
