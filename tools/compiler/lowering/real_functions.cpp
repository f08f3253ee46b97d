// SPDX-License-Identifier: Apache-2.0
// Functions of real numbers.
#include <bit>
#include <cmath>
#include <limits>

#include "tools/compiler/lowering/alu.h"
#include "tools/compiler/lowering/functions.h"

namespace neuron::lowering {
namespace {

using graph::Function;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kHalfPi = 1.5707963267948966F;
// From here on every number is whole.
constexpr float kWhole = 8388608.0F;

Lane absolute(Lanes& l, const Lane& x) { return l.with(NEURON_ALU_ABS_MAX, x, 0.0F); }

// x with NaN replaced, for functions that must not see it; and back.
Lane is_nan(Lanes& l, const Lane& x) { return l.compare(NEURON_ALU_NE, x, x); }
Lane without(Lanes& l, const Lane& x, const Lane& bad, float instead) {
  return l.select(bad, l.number(instead), x);
}

Lane logarithm(Lanes& l, const Lane& x) {
  const Lane nan = is_nan(l, x);
  const Lane tiny = l.compare(NEURON_ALU_LT, x, 0x1p-64F);
  const Lane huge = l.compare(NEURON_ALU_GT, x, 0x1p64F);
  // Powers of two bring every normal number into the range of the engine.
  Lane argument = l.select(tiny, l.with(NEURON_ALU_MUL, x, 0x1p86F), x);
  argument = l.select(huge, l.with(NEURON_ALU_MUL, x, 0x1p-66F), argument);
  argument = without(l, argument, nan, 1);
  argument = l.with(NEURON_ALU_MIN, l.with(NEURON_ALU_MAX, argument, 0x1p-64F), 0x1p64F);
  const Lane bare = l.activate(NEURON_ACT_LOG, argument);
  constexpr float kLog2 = 0.6931471805599453F;
  Lane result = l.select(tiny, l.with(NEURON_ALU_SUB, bare, 86 * kLog2), bare);
  result = l.select(huge, l.with(NEURON_ALU_ADD, bare, 66 * kLog2), result);
  {
    const Lane of_zero = l.number(-kInfinity);
    result = l.select(l.compare(NEURON_ALU_EQ, x, 0.0F), of_zero, result);
  }
  result = l.select(l.compare(NEURON_ALU_EQ, x, kInfinity), x, result);
  {
    const Lane of_negative = l.number(kNan);
    result = l.select(l.compare(NEURON_ALU_LT, x, 0.0F), of_negative, result);
  }
  return l.select(nan, x, result);
}

// Half to even.
Lane round(Lanes& l, const Lane& x) {
  const Lane whole = l.converted(l.converted(x, NEURON_DTYPE_I32), NEURON_DTYPE_F32);
  return l.select(l.compare(NEURON_ALU_LT, absolute(l, x), kWhole), whole, x);
}

Lane floor(Lanes& l, const Lane& x) {
  const Lane near = round(l, x);
  const Lane above = l.converted(l.compare(NEURON_ALU_GT, near, x), NEURON_DTYPE_F32);
  return l.subtract(near, above);
}

Lane ceil(Lanes& l, const Lane& x) {
  const Lane near = round(l, x);
  const Lane below = l.converted(l.compare(NEURON_ALU_LT, near, x), NEURON_DTYPE_F32);
  return l.add(near, below);
}

// sin(x + quarters * pi / 2), for 0 and 1 quarters.
Lane sine(Lanes& l, const Lane& x, int quarters) {
  constexpr double kTurn = 6.283185307179586;
  constexpr float kTurnHigh = 6.28125F;  // few bits: its multiples are exact
  constexpr auto kTurnLow = static_cast<float>(kTurn - 6.28125);
  const Lane bad = l.compare(NEURON_ALU_GE, absolute(l, x), 0x1p24F);
  const auto bounded = [&] {
    const Lane nan = is_nan(l, x);
    return without(l, without(l, x, bad, 0), nan, 0);
  };
  const Lane safe = bounded();
  const Lane turns =
      round(l, l.scaled(safe, static_cast<float>(1 / kTurn), 0.25F * static_cast<float>(quarters)));
  Lane rest = l.add(safe, l.with(NEURON_ALU_MUL, turns, -kTurnHigh));
  rest = l.add(rest, l.with(NEURON_ALU_MUL, turns, -kTurnLow));
  if (quarters != 0) rest = l.with(NEURON_ALU_ADD, rest, kHalfPi);
  constexpr float kPi = 3.14159F;
  rest = l.with(NEURON_ALU_MAX, l.with(NEURON_ALU_MIN, rest, kPi), -kPi);
  const Lane result = l.activate(NEURON_ACT_SIN, rest);
  const Lane lost = l.compare(NEURON_ALU_EQ, absolute(l, x), kInfinity);
  const Lane none = l.number(kNan);
  const Lane found = l.select(lost, none, result);
  return l.select(is_nan(l, x), x, found);
}

Lane arctangent(Lanes& l, const Lane& x) {
  const Lane nan = is_nan(l, x);
  const Lane size = without(l, absolute(l, x), nan, 0);
  const Lane large = l.compare(NEURON_ALU_GT, size, 1.0F);
  const Lane inverse = l.reciprocal(l.with(NEURON_ALU_MAX, size, 0.5F));
  const Lane angle = l.activate(NEURON_ACT_ARCTAN, l.select(large, inverse, size));
  const Lane result = l.select(large, l.scaled(angle, -1, kHalfPi), angle);
  const Lane negative = l.compare(NEURON_ALU_LT, x, 0.0F);
  return l.select(nan, x, l.select(negative, l.with(NEURON_ALU_MUL, result, -1.0F), result));
}

Lane divide(Lanes& l, const Lane& a, const Lane& b) { return l.multiply(a, l.reciprocal(b)); }

// x / sqrt((1 - x) (1 + x)) is the tangent of the angle.
Lane arcsine(Lanes& l, const Lane& x) {
  const auto both = [&] {
    const Lane above = l.with(NEURON_ALU_ADD, x, 1.0F);
    return l.multiply(l.scaled(x, -1, 1), above);
  };
  const Lane product = both();
  return arctangent(l, divide(l, x, l.root(product)));
}

Lane arccosine(Lanes& l, const Lane& x) {
  const auto of_both = [&] {
    const Lane above = l.with(NEURON_ALU_ADD, x, 1.0F);
    return divide(l, l.scaled(x, -1, 1), above);
  };
  const Lane ratio = of_both();
  return l.with(NEURON_ALU_MUL, arctangent(l, l.root(ratio)), 2.0F);
}

// (exp(x) + sign * exp(-x)) / 2
Lane hyperbolic(Lanes& l, const Lane& x, float sign) {
  const Lane up = l.activate(NEURON_ACT_EXP, x);
  const Lane down = l.activate(NEURON_ACT_EXP, l.with(NEURON_ALU_MUL, x, -1.0F));
  return l.with(NEURON_ALU_MUL, l.add(up, l.with(NEURON_ALU_MUL, down, sign)), 0.5F);
}

// log(x + sqrt(x^2 + offset)), which is log(2 x) where the square has no room for the offset.
Lane hyperbolic_area(Lanes& l, const Lane& x, float offset) {
  constexpr float kLog2 = 0.6931471805599453F;
  const Lane large = l.compare(NEURON_ALU_GT, x, 0x1p24F);
  const Lane small = l.with(NEURON_ALU_MIN, x, 0x1p24F);
  // Near 1 the square would lose what is left of it: (x - 1) (x + 1) does not.
  const auto less_one = [&] {
    const Lane above = l.with(NEURON_ALU_ADD, small, 1.0F);
    return l.multiply(l.with(NEURON_ALU_SUB, small, 1.0F), above);
  };
  const Lane inner =
      offset < 0 ? less_one() : l.with(NEURON_ALU_ADD, l.multiply(small, small), offset);
  const Lane root = l.root(inner);
  const Lane area = logarithm(l, l.select(large, x, l.add(small, root)));
  return l.select(large, l.with(NEURON_ALU_ADD, area, kLog2), area);
}

Lane inverse_hyperbolic_sine(Lanes& l, const Lane& x) {
  const Lane result = hyperbolic_area(l, absolute(l, x), 1);
  const Lane negative = l.compare(NEURON_ALU_LT, x, 0.0F);
  return l.select(negative, l.with(NEURON_ALU_MUL, result, -1.0F), result);
}

Lane inverse_hyperbolic_cosine(Lanes& l, const Lane& x) {
  const Lane outside = l.compare(NEURON_ALU_LT, x, 1.0F);
  const Lane area = hyperbolic_area(l, x, -1);
  return l.select(outside, l.number(kNan), area);
}

Lane inverse_hyperbolic_tangent(Lanes& l, const Lane& x) {
  const auto of_both = [&] {
    const Lane below = l.scaled(x, -1, 1);
    return divide(l, l.with(NEURON_ALU_ADD, x, 1.0F), below);
  };
  const Lane ratio = of_both();
  return l.with(NEURON_ALU_MUL, logarithm(l, ratio), 0.5F);
}

Lane sign(Lanes& l, const Lane& x) {
  const Lane above = l.converted(l.compare(NEURON_ALU_GT, x, 0.0F), NEURON_DTYPE_F32);
  const Lane below = l.converted(l.compare(NEURON_ALU_LT, x, 0.0F), NEURON_DTYPE_F32);
  const Lane difference = l.subtract(above, below);
  return l.select(is_nan(l, x), x, difference);
}

Lane remainder(Lanes& l, const Lane& a, const Lane& b, bool floored) {
  const Lane size = absolute(l, a), divisor = absolute(l, b);
  Lane rest = l.subtract(size, l.multiply(floor(l, divide(l, size, divisor)), divisor));
  // The quotient may be one too large or too small: its divisor is rounded.
  {
    const Lane more = l.add(rest, divisor);
    rest = l.select(l.compare(NEURON_ALU_LT, rest, 0.0F), more, rest);
  }
  {
    const Lane less = l.subtract(rest, divisor);
    rest = l.select(l.compare(NEURON_ALU_GE, rest, divisor), less, rest);
  }
  // Less than the divisor, which may be infinite, it is all rest; so NaN stays, too.
  rest = l.select(l.compare(NEURON_ALU_LT, size, divisor), size, rest);
  const Lane negative = l.compare(NEURON_ALU_LT, a, 0.0F);
  rest = l.select(negative, l.with(NEURON_ALU_MUL, rest, -1.0F), rest);
  if (!floored) return rest;
  // With the sign of the divisor: one divisor more where the signs differ.
  const Lane differ = l.compare(NEURON_ALU_NE, negative, l.compare(NEURON_ALU_LT, b, 0.0F));
  const Lane moves = l.whole(NEURON_ALU_AND, differ, l.compare(NEURON_ALU_NE, rest, 0.0F));
  return l.select(moves, l.add(rest, b), rest);
}

// The lanes of an operand, also of one number.
Lane filled(Lanes& l, const Operand& operand) {
  return operand.uniform ? l.number(static_cast<float>(operand.number)) : operand.lane;
}

}  // namespace

std::optional<uint8_t> activation_of(Function function) {
  switch (function) {
    case Function::kExp:
      return NEURON_ACT_EXP;
    case Function::kTanh:
      return NEURON_ACT_TANH;
    case Function::kErf:
      return NEURON_ACT_ERF;
    case Function::kSigmoid:
      return NEURON_ACT_SIGMOID;
    case Function::kSoftplus:
      return NEURON_ACT_SOFTPLUS;
    default:
      return std::nullopt;
  }
}

Lane real_function(Lanes& l, Function function, const Lane& x) {
  if (const auto activation = activation_of(function)) return l.activate(*activation, x);
  switch (function) {
    case Function::kNegate:
      return l.with(NEURON_ALU_MUL, x, -1.0F);
    case Function::kAbsolute:
      return absolute(l, x);
    case Function::kLog:
      return logarithm(l, x);
    case Function::kSqrt:
      return l.root(x);
    case Function::kFloor:
      return floor(l, x);
    case Function::kCeil:
      return ceil(l, x);
    case Function::kRound:
      return round(l, x);
    case Function::kSign:
      return sign(l, x);
    case Function::kSin:
      return sine(l, x, 0);
    case Function::kCos:
      return sine(l, x, 1);
    case Function::kTan: {
      const Lane cosine = sine(l, x, 1);
      return divide(l, sine(l, x, 0), cosine);
    }
    case Function::kAsin:
      return arcsine(l, x);
    case Function::kAcos:
      return arccosine(l, x);
    case Function::kAtan:
      return arctangent(l, x);
    case Function::kSinh:
      return hyperbolic(l, x, -1);
    case Function::kCosh:
      return hyperbolic(l, x, 1);
    case Function::kAsinh:
      return inverse_hyperbolic_sine(l, x);
    case Function::kAcosh:
      return inverse_hyperbolic_cosine(l, x);
    case Function::kAtanh:
      return inverse_hyperbolic_tangent(l, x);
    case Function::kIsNan:
      return is_nan(l, x);
    case Function::kIsInf:
      return l.compare(NEURON_ALU_EQ, absolute(l, x), kInfinity);
    default:
      return x;
  }
}

Lane real_function(Lanes& l, Function function, const Operand& a, const Operand& b) {
  const auto number = static_cast<float>(b.number);
  switch (function) {
    case Function::kDivide:
      // A constant divisor has a reciprocal that is as exact as that of the engine.
      if (b.uniform && std::isnormal(1 / number)) {
        return l.with(NEURON_ALU_MUL, filled(l, a), 1 / number);
      }
      return divide(l, filled(l, a), filled(l, b));
    case Function::kModulo:
      return remainder(l, filled(l, a), filled(l, b), true);
    case Function::kRemainder:
      return remainder(l, filled(l, a), filled(l, b), false);
    default:
      break;
  }
  const uint8_t op = alu_of(function);
  if (b.uniform) return l.with(op, filled(l, a), number);
  if (a.uniform) return l.from(static_cast<float>(a.number), op, b.lane);
  return l.with(op, a.lane, b.lane);
}

namespace {

// The same of a divisor that is known, whose reciprocal and halves are, too.
Lane near_quotient_of_number(Lanes& l, const Lane& a, float divisor) {
  const float inverse = 1 / divisor;
  const float divisor_high =
      std::bit_cast<float>(std::bit_cast<uint32_t>(divisor) & uint32_t{0xFFFFF000});
  const float divisor_low = divisor - divisor_high;
  const Lane first = l.with(NEURON_ALU_MUL, a, inverse);
  const Lane high = l.bits(NEURON_ALU_AND, first, 0xFFFFF000), low = l.subtract(first, high);
  Lane rest = a;
  for (const Lane& half : {high, low}) {
    rest = l.subtract(rest, l.with(NEURON_ALU_MUL, half, divisor_high));
    if (divisor_low != 0) rest = l.subtract(rest, l.with(NEURON_ALU_MUL, half, divisor_low));
  }
  const Lane better = l.add(first, l.with(NEURON_ALU_MUL, rest, inverse));
  // Where something is infinite or NaN there is no rest.
  const Lane finite = l.compare(NEURON_ALU_LT, absolute(l, rest), kInfinity);
  return l.select(finite, better, first);
}

}  // namespace

Lane near_quotient(Lanes& l, const Operand& left, const Operand& right) {
  if (right.uniform && std::isnormal(1 / static_cast<float>(right.number))) {
    return near_quotient_of_number(l, filled(l, left), static_cast<float>(right.number));
  }
  const Lane a = filled(l, left), b = filled(l, right);
  const Lane inverse = l.reciprocal(b);
  const Lane first = l.multiply(a, inverse);
  // Halves of 12 bits have exact products, so the rest a - first * b is exact, too.
  const auto upper = [&](const Lane& x) { return l.bits(NEURON_ALU_AND, x, 0xFFFFF000); };
  const Lane quotient_high = upper(first), divisor_high = upper(b);
  const Lane quotient_low = l.subtract(first, quotient_high);
  const Lane divisor_low = l.subtract(b, divisor_high);
  Lane rest = l.subtract(a, l.multiply(quotient_high, divisor_high));
  rest = l.subtract(rest, l.multiply(quotient_high, divisor_low));
  rest = l.subtract(rest, l.multiply(quotient_low, divisor_high));
  rest = l.subtract(rest, l.multiply(quotient_low, divisor_low));
  const Lane better = l.add(first, l.multiply(rest, inverse));
  // Where something is infinite or NaN there is no rest.
  const Lane finite = l.compare(NEURON_ALU_LT, absolute(l, rest), kInfinity);
  return l.select(finite, better, first);
}

Lane real_comparison(Lanes& l, Function function, const Operand& a, const Operand& b) {
  const uint8_t op = alu_of(function);
  if (b.uniform) return l.compare(op, filled(l, a), static_cast<float>(b.number));
  return l.compare(op, filled(l, a), b.lane);
}

}  // namespace neuron::lowering
