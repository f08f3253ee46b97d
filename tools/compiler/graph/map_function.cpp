// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/map_function.h"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace neuron::graph {
namespace {

// The larger (or smaller) of two, NaN if one is.
double extreme(double a, double b, bool largest) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return (a < b) == largest ? b : a;
}

double floored_modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double sign_of(double x) {
  if (std::isnan(x)) return x;
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

double of_real(Function function, double x) {
  switch (function) {
    case Function::kNegate:
      return -x;
    case Function::kAbsolute:
      return std::fabs(x);
    case Function::kExp:
      return std::exp(x);
    case Function::kLog:
      return std::log(x);
    case Function::kSqrt:
      return std::sqrt(x);
    case Function::kFloor:
      return std::floor(x);
    case Function::kCeil:
      return std::ceil(x);
    case Function::kRound:
      return std::nearbyint(x);
    case Function::kSign:
      return sign_of(x);
    case Function::kSin:
      return std::sin(x);
    case Function::kCos:
      return std::cos(x);
    case Function::kTan:
      return std::tan(x);
    case Function::kAsin:
      return std::asin(x);
    case Function::kAcos:
      return std::acos(x);
    case Function::kAtan:
      return std::atan(x);
    case Function::kSinh:
      return std::sinh(x);
    case Function::kCosh:
      return std::cosh(x);
    case Function::kTanh:
      return std::tanh(x);
    case Function::kAsinh:
      return std::asinh(x);
    case Function::kAcosh:
      return std::acosh(x);
    case Function::kAtanh:
      return std::atanh(x);
    case Function::kErf:
      return std::erf(x);
    case Function::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Function::kSoftplus:
      return x > 30 ? x : std::log1p(std::exp(x));
    default:
      return x;
  }
}

int64_t of_integer(Function function, Type type, int64_t x) {
  switch (function) {
    case Function::kNegate:
      return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
    case Function::kAbsolute:
      return !is_unsigned(type) && x < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x;
    case Function::kSign:
      return x == 0 ? 0 : !is_unsigned(type) && x < 0 ? -1 : 1;
    case Function::kNot:
      return type == Type::kBool ? !x : ~x;
    default:
      return x;
  }
}

template <class Number>
bool compares(Function function, Number a, Number b) {
  switch (function) {
    case Function::kEqual:
      return a == b;
    case Function::kNotEqual:
      return a != b;
    case Function::kLess:
      return a < b;
    case Function::kLessOrEqual:
      return a <= b;
    case Function::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

uint64_t low_bits(Type type, int64_t value) {
  const size_t bits = 8 * type_bytes(type);
  const auto all = static_cast<uint64_t>(value);
  return bits == 64 ? all : all & ((uint64_t{1} << bits) - 1);
}

int64_t divided(Type type, int64_t a, int64_t b) {
  if (b == 0) return -1;  // all bits, as XLA says
  if (type == Type::kU64) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  }
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b;
}

int64_t remaining(Type type, int64_t a, int64_t b, bool floored) {
  if (b == 0) return a;
  if (type == Type::kU64) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  }
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return floored && remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

int64_t shifted(Type type, int64_t a, int64_t b, bool left) {
  const auto bits = static_cast<int64_t>(8 * type_bytes(type));
  if (b < 0 || b >= bits) return 0;
  return static_cast<int64_t>(left ? low_bits(type, a) << b : low_bits(type, a) >> b);
}

int64_t combine_64(Function function, Type type, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const bool below = type == Type::kU64 ? x < y : a < b;
  switch (function) {
    case Function::kAdd:
      return static_cast<int64_t>(x + y);
    case Function::kSubtract:
      return static_cast<int64_t>(x - y);
    case Function::kMultiply:
      return static_cast<int64_t>(x * y);
    case Function::kDivide:
      return divided(type, a, b);
    case Function::kModulo:
      return remaining(type, a, b, true);
    case Function::kRemainder:
      return remaining(type, a, b, false);
    case Function::kPower:
      return b < 0 && !is_unsigned(type) ? (a == 1    ? 1
                                            : a == -1 ? (b % 2 == 0 ? 1 : -1)
                                                      : 0)
                                         : static_cast<int64_t>(power(x, y));
    case Function::kMaximum:
      return below ? b : a;
    case Function::kMinimum:
      return below ? a : b;
    case Function::kAnd:
      return a & b;
    case Function::kOr:
      return a | b;
    case Function::kXor:
      return a ^ b;
    case Function::kShiftLeft:
      return shifted(type, a, b, true);
    case Function::kShiftRight:
      return shifted(type, a, b, false);
    default:
      return 0;
  }
}

Tensor cast(const Node& node, const Tensor& x) {
  Tensor out = Tensor::zeros(node.type, node.shape);
  const auto count = static_cast<size_t>(out.elements());
  for (size_t i = 0; i < count; ++i) {
    if (is_real(node.type)) {
      out.reals[i] = rounded(node.type, x.real(i));
    } else if (is_real(x.type)) {
      out.integers[i] = truncated(node.type, x.reals[i]);
    } else {
      out.integers[i] = wrapped(node.type, x.integers[i]);
    }
  }
  return out;
}

Tensor compare(const Node& node, const std::vector<const Tensor*>& operands) {
  Tensor out = Tensor::zeros(Type::kBool, node.shape);
  const Tensor& a = *operands[0];
  for (size_t i = 0; i < out.integers.size(); ++i) {
    if (node.function == Function::kIsNan) {
      out.integers[i] = is_real(a.type) && std::isnan(a.reals[i]);
    } else if (node.function == Function::kIsInf) {
      out.integers[i] = is_real(a.type) && std::isinf(a.reals[i]);
    } else if (is_real(a.type)) {
      out.integers[i] = compares(node.function, a.reals[i], operands[1]->reals[i]);
    } else if (a.type == Type::kU64) {
      out.integers[i] = compares(node.function, static_cast<uint64_t>(a.integers[i]),
                                 static_cast<uint64_t>(operands[1]->integers[i]));
    } else {
      out.integers[i] = compares(node.function, a.integers[i], operands[1]->integers[i]);
    }
  }
  return out;
}

Tensor select(const Node& node, const std::vector<const Tensor*>& operands) {
  Tensor out = *operands[2];
  out.shape = node.shape;
  const std::vector<int64_t>& conditions = operands[0]->integers;
  for (size_t i = 0; i < conditions.size(); ++i) {
    if (conditions[i] == 0) continue;
    if (is_real(node.type)) {
      out.reals[i] = operands[1]->reals[i];
    } else {
      out.integers[i] = operands[1]->integers[i];
    }
  }
  return out;
}

}  // namespace

double combine(Function function, double a, double b) {
  switch (function) {
    case Function::kAdd:
      return a + b;
    case Function::kSubtract:
      return a - b;
    case Function::kMultiply:
      return a * b;
    case Function::kDivide:
      return a / b;
    case Function::kModulo:
      return floored_modulo(a, b);
    case Function::kRemainder:
      return std::fmod(a, b);
    case Function::kPower:
      return std::pow(a, b);
    case Function::kMaximum:
      return extreme(a, b, true);
    default:
      return extreme(a, b, false);
  }
}

int64_t combine(Function function, Type type, int64_t a, int64_t b) {
  return wrapped(type, combine_64(function, type, a, b));
}

Tensor evaluate_map(const Node& node, const std::vector<const Tensor*>& operands) {
  if (node.function == Function::kCast) return cast(node, *operands[0]);
  if (node.function == Function::kSelect) return select(node, operands);
  if (gives_bool(node.function)) return compare(node, operands);
  Tensor out = Tensor::zeros(node.type, node.shape);
  const auto count = static_cast<size_t>(out.elements());
  const bool unary = node.function < Function::kAdd;
  for (size_t i = 0; i < count; ++i) {
    if (is_real(node.type)) {
      const double x = operands[0]->reals[i];
      const double y =
          unary ? of_real(node.function, x) : combine(node.function, x, operands[1]->reals[i]);
      out.reals[i] = rounded(node.type, y);
    } else {
      const int64_t x = operands[0]->integers[i];
      out.integers[i] = unary ? wrapped(node.type, of_integer(node.function, node.type, x))
                              : combine(node.function, node.type, x, operands[1]->integers[i]);
    }
  }
  return out;
}

}  // namespace neuron::graph
