// SPDX-License-Identifier: Apache-2.0
// Functions of whole numbers, and conversions.
#include <algorithm>

#include "tools/compiler/lowering/alu.h"
#include "tools/compiler/lowering/functions.h"

namespace neuron::lowering {
namespace {

using graph::Function;
using graph::Type;

struct Quotient {
  Lane quotient, remainder;
};

// Of numbers that are not negative. The engines divide real numbers only: what the first estimate
// leaves is divided again, and the last unit is corrected.
Quotient divide_sizes(Lanes& l, const Lane& a, const Lane& b) {
  const Lane inverse = l.reciprocal(l.converted(b, NEURON_DTYPE_F32));
  const auto estimate = [&](const Lane& x) {
    return l.converted(l.multiply(l.converted(x, NEURON_DTYPE_F32), inverse), NEURON_DTYPE_I32);
  };
  Lane quotient = estimate(a);
  Lane rest = l.whole(NEURON_ALU_SUB, a, l.whole(NEURON_ALU_MUL, quotient, b));
  const Lane more = estimate(rest);
  quotient = l.whole(NEURON_ALU_ADD, quotient, more);
  rest = l.whole(NEURON_ALU_SUB, rest, l.whole(NEURON_ALU_MUL, more, b));
  const Lane below = l.whole(NEURON_ALU_LT, rest, 0);
  quotient = l.whole(NEURON_ALU_SUB, quotient, below);
  rest = l.whole(NEURON_ALU_ADD, rest, l.whole(NEURON_ALU_MUL, below, b));
  const Lane above = l.whole(NEURON_ALU_GE, rest, b);
  quotient = l.whole(NEURON_ALU_ADD, quotient, above);
  return {quotient, l.whole(NEURON_ALU_SUB, rest, l.whole(NEURON_ALU_MUL, above, b))};
}

// Of 32 bits without a sign: half of the number has room for one.
Quotient divide_unsigned(Lanes& l, Type type, const Lane& a, const Lane& b) {
  if (graph::type_bytes(type) < 4) return divide_sizes(l, a, b);
  const Lane large = l.whole(NEURON_ALU_LT, b, 0);
  const Lane small = l.select(large, l.whole_number(1), b);
  const Lane half = divide_sizes(l, l.bits(NEURON_ALU_SHR_LOGICAL, a, 1), small).quotient;
  const auto doubled = [&] {
    const Lane twice = l.bits(NEURON_ALU_SHL, half, 1);
    return l.select(large, l.whole_number(0), twice);
  };
  Lane quotient = doubled();
  const Lane rest = l.whole(NEURON_ALU_SUB, a, l.whole(NEURON_ALU_MUL, quotient, b));
  const Lane above = l.whole(NEURON_ALU_GE, rest.as(NEURON_DTYPE_U32), b.as(NEURON_DTYPE_U32))
                         .as(NEURON_DTYPE_I32);
  quotient = l.whole(NEURON_ALU_ADD, quotient, above);
  return {quotient, l.whole(NEURON_ALU_SUB, rest, l.whole(NEURON_ALU_MUL, above, b))};
}

Lane size_of(Lanes& l, const Lane& x) { return l.whole(NEURON_ALU_ABS_MAX, x, 0); }

// -1 where it is negative, else 1.
Lane sign_of(Lanes& l, const Lane& x) {
  return l.bits(NEURON_ALU_OR, l.bits(NEURON_ALU_SHR_ARITH, x, 31), 1);
}

Lane sign_of_product(Lanes& l, const Lane& a, const Lane& b) {
  const Lane other = sign_of(l, b);
  return l.whole(NEURON_ALU_MUL, sign_of(l, a), other);
}

// A divisor of 0 gives all bits, as the interpreter does.
Lane divide(Lanes& l, Type type, const Lane& a, const Lane& b) {
  const Lane nothing = l.whole(NEURON_ALU_EQ, b, 0);
  Lane quotient;
  if (graph::is_unsigned(type)) {
    quotient = divide_unsigned(l, type, a, b).quotient;
  } else {
    // The size of the least number has no sign left.
    const Lane sign = sign_of_product(l, a, b);
    {
      const Lane divisor = size_of(l, b);
      quotient = divide_unsigned(l, type, size_of(l, a), divisor).quotient;
    }
    quotient = l.whole(NEURON_ALU_MUL, quotient, sign);
  }
  return l.select(nothing, l.whole_number(-1), quotient);
}

// What 0 leaves is the dividend.
Lane remainder(Lanes& l, Type type, const Lane& a, const Lane& b, bool floored) {
  const Lane nothing = l.whole(NEURON_ALU_EQ, b, 0);
  if (graph::is_unsigned(type)) {
    return l.select(nothing, a, divide_unsigned(l, type, a, b).remainder);
  }
  Lane size;
  {
    const Lane divisor = size_of(l, b);
    size = divide_unsigned(l, type, size_of(l, a), divisor).remainder;
  }
  const Lane rest = l.select(nothing, a, l.whole(NEURON_ALU_MUL, size, sign_of(l, a)));
  if (!floored) return rest;
  // With the sign of the divisor: one divisor more where the signs differ.
  const Lane differ = l.whole(NEURON_ALU_LT, l.whole(NEURON_ALU_XOR, rest, b), 0);
  const Lane moves = l.whole(NEURON_ALU_AND, differ, l.whole(NEURON_ALU_NE, rest, 0));
  return l.whole(NEURON_ALU_ADD, rest, l.whole(NEURON_ALU_MUL, moves, b));
}

// The bits of the exponent, from the lowest, say which squares are multiplied. Of a negative one
// only 1 and -1 have a power that is not 0.
Lane power(Lanes& l, Type type, const Lane& a, const Lane& b) {
  const bool has_sign = !graph::is_unsigned(type);
  const auto bits = static_cast<uint32_t>(8 * std::min<size_t>(4, graph::type_bytes(type)));
  Lane result = l.whole_number(1), square = a, rest = b;
  for (uint32_t i = 0; i < bits - (has_sign ? 1 : 0); ++i) {
    if (i > 0) square = l.whole(NEURON_ALU_MUL, square, square);
    const Lane odd = l.bits(NEURON_ALU_AND, rest, 1);
    result = l.select(odd, l.whole(NEURON_ALU_MUL, result, square), result);
    rest = l.bits(NEURON_ALU_SHR_LOGICAL, rest, 1);
  }
  if (!has_sign) return result;
  const Lane negative = l.whole(NEURON_ALU_LT, b, 0);
  const Lane unit = l.whole(NEURON_ALU_EQ, size_of(l, a), 1);
  const Lane odd = l.bits(NEURON_ALU_AND, b, 1);
  const Lane of_unit = l.select(odd, a, l.whole_number(1));
  return l.select(negative, l.select(unit, of_unit, l.whole_number(0)), result);
}

}  // namespace

Lane whole_function(Lanes& l, Function function, Type type, const Lane& x) {
  switch (function) {
    case Function::kNegate:
      return l.whole(NEURON_ALU_SUB, l.whole_number(0), x);
    case Function::kAbsolute:
      return graph::is_unsigned(type) ? x : size_of(l, x);
    case Function::kSign: {
      const Lane below = l.whole(NEURON_ALU_LT, x, 0);
      return l.whole(NEURON_ALU_SUB, l.whole(NEURON_ALU_GT, x, 0), below);
    }
    case Function::kNot:
      return l.bits(NEURON_ALU_XOR, x, type == Type::kBool ? 1 : UINT32_MAX);
    case Function::kIsNan:
    case Function::kIsInf:
      return l.whole_number(0);
    default:
      return x;  // floor, ceil, round
  }
}

Lane whole_function(Lanes& l, Function function, Type type, const Lane& a, const Lane& b) {
  switch (function) {
    case Function::kDivide:
      return divide(l, type, a, b);
    case Function::kModulo:
      return remainder(l, type, a, b, true);
    case Function::kRemainder:
      return remainder(l, type, a, b, false);
    case Function::kPower:
      return power(l, type, a, b);
    default:
      break;
  }
  const uint8_t dtype = order_dtype(type);
  return l.whole(alu_of(function), a.as(dtype), b.as(dtype)).as(NEURON_DTYPE_I32);
}

Lane whole_power(Lanes& l, const Lane& a, int64_t exponent) {
  if (exponent == 0) return l.whole_number(1);
  Lane square = a;
  for (; exponent % 2 == 0; exponent /= 2) square = l.whole(NEURON_ALU_MUL, square, square);
  Lane result = square;
  while ((exponent /= 2) > 0) {
    square = l.whole(NEURON_ALU_MUL, square, square);
    if (exponent % 2 != 0) result = l.whole(NEURON_ALU_MUL, result, square);
  }
  return result;
}

Lane wrapped(Lanes& l, Type type, const Lane& x) {
  switch (type) {
    case Type::kU8:
      return l.bits(NEURON_ALU_AND, x, 0xFF);
    case Type::kU16:
      return l.bits(NEURON_ALU_AND, x, 0xFFFF);
    case Type::kI8:
      return l.bits(NEURON_ALU_SHR_ARITH, l.bits(NEURON_ALU_SHL, x, 24), 24);
    case Type::kI16:
      return l.bits(NEURON_ALU_SHR_ARITH, l.bits(NEURON_ALU_SHL, x, 16), 16);
    default:
      return x;
  }
}

Lane rounded(Lanes& l, Type type, const Lane& x) {
  if (type == Type::kF16) return l.narrowed(x, NEURON_DTYPE_F16);
  if (type == Type::kBf16) return l.narrowed(x, NEURON_DTYPE_BF16);
  return x;
}

namespace {

// In 32 bits with a sign. Conversion rounds to the nearest and stays within its range, and gives 0
// for NaN; what lies beyond x goes one back.
Lane toward_zero(Lanes& l, const Lane& x) {
  const Lane near = l.converted(x, NEURON_DTYPE_I32);
  const Lane back = l.converted(near, NEURON_DTYPE_F32);
  const Lane positive = l.compare(NEURON_ALU_GT, x, 0.0F);
  const Lane negative = l.compare(NEURON_ALU_LT, x, 0.0F);
  const Lane above = l.whole(NEURON_ALU_AND, l.compare(NEURON_ALU_GT, back, x), positive);
  const Lane below = l.whole(NEURON_ALU_AND, l.compare(NEURON_ALU_LT, back, x), negative);
  return l.whole(NEURON_ALU_ADD, l.whole(NEURON_ALU_SUB, near, above), below);
}

// Beyond the range of the type the nearest end of it.
Lane whole_part(Lanes& l, Type to, const Lane& x) {
  const size_t bytes = graph::type_bytes(to);
  if (graph::is_unsigned(to) && bytes >= 4) {
    // The upper half of the range has no sign to lie in.
    constexpr float kHalf = 0x1p31F;
    const Lane size = l.with(NEURON_ALU_MAX, x, 0.0F);
    const Lane upper = l.compare(NEURON_ALU_GE, size, kHalf);
    const Lane lower = l.select(upper, l.with(NEURON_ALU_SUB, size, kHalf), size);
    const Lane top = l.bits(NEURON_ALU_SHL, upper, 31);
    return l.whole(NEURON_ALU_XOR, toward_zero(l, lower), top);
  }
  if (bytes >= 4) return toward_zero(l, x);
  const auto most = static_cast<float>(graph::truncated(to, 1e9));
  const auto least = static_cast<float>(graph::truncated(to, -1e9));
  return toward_zero(l, l.with(NEURON_ALU_MIN, l.with(NEURON_ALU_MAX, x, least), most));
}

}  // namespace

Lane cast(Lanes& l, Type to, Type from, const Lane& x) {
  if (graph::is_real(from)) {
    if (graph::is_real(to)) return rounded(l, to, x);
    if (to == Type::kBool) return l.compare(NEURON_ALU_NE, x, 0.0F);
    return whole_part(l, to, x);
  }
  if (graph::is_real(to)) {
    const uint8_t dtype = order_dtype(from);
    return rounded(l, to, l.converted(x.as(dtype), NEURON_DTYPE_F32));
  }
  if (to == Type::kBool) return l.whole(NEURON_ALU_NE, x, 0);
  return wrapped(l, to, x);
}

}  // namespace neuron::lowering
