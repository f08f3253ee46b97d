// SPDX-License-Identifier: Apache-2.0
// Operators that compute each element alone, from one element of each input.
#include <limits>

#include "tools/compiler/onnx/operators.h"
#include "tools/compiler/onnx/tensor_reader.h"

namespace neuron::onnx {
namespace {

template <Function kFunction>
void unary(Call& c) {
  c.out(c.b.map(kFunction, c.in(0)));
}

// Before operator set 7, the second operand is broadcast only if the node says so, and from `axis`
// on.
Value second_operand(Call& c) {
  const Value b = c.in(1);
  if (c.opset() >= 7 || c.integer("broadcast", 0) == 0 || !c.has_attribute("axis")) return b;
  const int64_t axis = c.b.axis(c.in(0), c.integer("axis", 0));
  Shape shape = c.b.shape(b);
  const int64_t missing = c.b.rank(c.in(0)) - axis - static_cast<int64_t>(shape.size());
  if (missing < 0) {
    return c.b.fail("{} does not fit from axis {} on", graph::shape_text(shape), axis);
  }
  shape.insert(shape.end(), static_cast<size_t>(missing), 1);
  return c.b.reshape(b, shape);
}

template <Function kFunction>
void binary(Call& c) {
  c.out(c.b.map(kFunction, c.in(0), second_operand(c)));
}

template <Function kFunction>
void variadic(Call& c) {
  Value value = c.in(0);
  for (size_t i = 1; i < c.count(); ++i) value = c.b.map(kFunction, value, c.in(i));
  c.out(value);
}

void mean(Call& c) {
  Value value = c.in(0);
  for (size_t i = 1; i < c.count(); ++i) value = c.b.add(value, c.in(i));
  c.out(c.b.map(Function::kDivide, value, static_cast<double>(c.count())));
}

void reciprocal(Call& c) {
  const Value x = c.in(0);
  c.out(c.b.divide(c.b.scalar(c.b.type(x), 1), x));
}

void power(Call& c) {
  const Value base = c.in(0), exponent = second_operand(c);
  const Type type = c.b.type(base);
  if (type == c.b.type(exponent)) return c.out(c.b.map(Function::kPower, base, exponent));
  const bool whole = !graph::is_real(type) && !graph::is_real(c.b.type(exponent));
  const Type common = graph::is_real(type) || whole ? type : c.b.type(exponent);
  const Value wide = c.b.cast(exponent, common);
  c.out(c.b.cast(c.b.map(Function::kPower, c.b.cast(base, common), wide), type));
}

void modulo(Call& c) {
  const bool truncating = c.integer("fmod", 0) != 0;
  c.out(c.b.map(truncating ? Function::kRemainder : Function::kModulo, c.in(0), c.in(1)));
}

void shift(Call& c) {
  const std::string direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    c.b.fail("direction \"{}\"", base::escaped(direction));
  }
  c.out(c.b.map(direction == "LEFT" ? Function::kShiftLeft : Function::kShiftRight, c.in(0),
                c.in(1)));
}

void is_infinite(Call& c) {
  const Value x = c.in(0);
  const bool positive = c.integer("detect_positive", 1) != 0;
  const bool negative = c.integer("detect_negative", 1) != 0;
  Value found = c.b.map(Function::kIsInf, x);
  if (!positive) found = c.b.map(Function::kAnd, found, c.b.map(Function::kLess, x, 0.0));
  if (!negative) found = c.b.map(Function::kAnd, found, c.b.map(Function::kGreater, x, 0.0));
  c.out(found);
}

void where(Call& c) { c.out(c.b.select(c.in(0), c.in(1), c.in(2))); }

void clip(Call& c) {
  Value x = c.in(0);
  const Type type = c.b.type(x);
  if (c.opset() < 11) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    x = c.b.map(Function::kMaximum, x, c.real("min", -kLargest));
    return c.out(c.b.map(Function::kMinimum, x, c.real("max", kLargest)));
  }
  if (c.has(1)) x = c.b.map(Function::kMaximum, x, c.b.cast(c.in(1), type));
  if (c.has(2)) x = c.b.map(Function::kMinimum, x, c.b.cast(c.in(2), type));
  c.out(x);
}

void cast(Call& c) {
  if (is_text(static_cast<int32_t>(c.integer("to", 1)))) {
    c.refuse(graph::RefusalClass::kStrings, "it makes strings, which have no form on the device");
  }
  if (const auto type = c.type("to")) c.out(c.b.cast(c.in(0), *type));
}

void cast_like(Call& c) { c.out(c.b.cast(c.in(0), c.b.type(c.in(1)))); }

constexpr Operator kMapOperators[] = {
    {"Abs", unary<Function::kAbsolute>},
    {"Acos", unary<Function::kAcos>},
    {"Acosh", unary<Function::kAcosh>},
    {"Add", binary<Function::kAdd>},
    {"And", binary<Function::kAnd>},
    {"Asin", unary<Function::kAsin>},
    {"Asinh", unary<Function::kAsinh>},
    {"Atan", unary<Function::kAtan>},
    {"Atanh", unary<Function::kAtanh>},
    {"BitShift", shift},
    {"BitwiseAnd", binary<Function::kAnd>},
    {"BitwiseNot", unary<Function::kNot>},
    {"BitwiseOr", binary<Function::kOr>},
    {"BitwiseXor", binary<Function::kXor>},
    {"Cast", cast},
    {"CastLike", cast_like},
    {"Ceil", unary<Function::kCeil>},
    {"Clip", clip},
    {"Cos", unary<Function::kCos>},
    {"Cosh", unary<Function::kCosh>},
    {"Div", binary<Function::kDivide>},
    {"Equal", binary<Function::kEqual>},
    {"Erf", unary<Function::kErf>},
    {"Exp", unary<Function::kExp>},
    {"Floor", unary<Function::kFloor>},
    {"Greater", binary<Function::kGreater>},
    {"GreaterOrEqual", binary<Function::kGreaterOrEqual>},
    {"IsInf", is_infinite},
    {"IsNaN", unary<Function::kIsNan>},
    {"Less", binary<Function::kLess>},
    {"LessOrEqual", binary<Function::kLessOrEqual>},
    {"Log", unary<Function::kLog>},
    {"Max", variadic<Function::kMaximum>},
    {"Mean", mean},
    {"Min", variadic<Function::kMinimum>},
    {"Mod", modulo},
    {"Mul", binary<Function::kMultiply>},
    {"Neg", unary<Function::kNegate>},
    {"Not", unary<Function::kNot>},
    {"Or", binary<Function::kOr>},
    {"Pow", power},
    {"Reciprocal", reciprocal},
    {"Round", unary<Function::kRound>},
    {"Sigmoid", unary<Function::kSigmoid>},
    {"Sign", unary<Function::kSign>},
    {"Sin", unary<Function::kSin>},
    {"Sinh", unary<Function::kSinh>},
    {"Softplus", unary<Function::kSoftplus>},
    {"Sqrt", unary<Function::kSqrt>},
    {"Sub", binary<Function::kSubtract>},
    {"Sum", variadic<Function::kAdd>},
    {"Tan", unary<Function::kTan>},
    {"Tanh", unary<Function::kTanh>},
    {"Where", where},
    {"Xor", binary<Function::kXor>},
};

}  // namespace

std::span<const Operator> map_operators() { return kMapOperators; }

}  // namespace neuron::onnx
