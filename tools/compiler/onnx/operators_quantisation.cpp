// SPDX-License-Identifier: Apache-2.0
// Operators on quantised values.
#include <cmath>

#include "tools/compiler/onnx/operators.h"
#include "tools/compiler/onnx/quantisation.h"

namespace neuron::onnx {
namespace {

struct Range {
  double least, most;
};

Range range_of(Type type) {
  const int bits = static_cast<int>(8 * graph::type_bytes(type));
  if (graph::is_unsigned(type)) return {0, std::ldexp(1.0, bits) - 1};
  return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
}

// A scale or zero point of one dimension along `axis` of x, of one number, or of blocks.
Value along(Call& c, Value factor, Value x, int64_t axis) {
  const Shape shape = c.b.shape(factor), of_x = c.b.shape(x);
  if (shape.empty() || graph::elements_of(shape) == 1) return c.b.reshape(factor, {});
  axis = c.b.axis(x, axis);
  if (!c.b.ok()) return graph::kNone;
  if (shape.size() == of_x.size()) {
    // Of blocks: each is repeated over its block.
    const int64_t block = c.integer("block_size", 0);
    if (block < 1) return c.b.fail("a scale of {} without a block size", graph::shape_text(shape));
    if (!c.b.listable(of_x[static_cast<size_t>(axis)])) return graph::kNone;
    std::vector<int64_t> places;
    for (int64_t i = 0; i < of_x[static_cast<size_t>(axis)]; ++i) places.push_back(i / block);
    return c.b.pick(factor, axis, places);
  }
  if (shape.size() != 1) return c.b.fail("a scale of {}", graph::shape_text(shape));
  Shape spread(of_x.size(), 1);
  spread[static_cast<size_t>(axis)] = shape[0];
  return c.b.reshape(factor, spread);
}

void quantize_linear(Call& c) {
  // Whole numbers, too, are divided by a real scale.
  const Value given = c.in(0);
  const Value x = graph::is_real(c.b.type(given)) ? given : c.b.cast(given, Type::kF32);
  const int64_t axis = c.integer("axis", 1);
  const Value scale = along(c, c.in(1), x, axis);
  Type type = Type::kU8;
  Value zero = graph::kNone;
  if (c.has(2)) {
    type = c.b.type(c.in(2));
    zero = along(c, c.in(2), x, axis);
  } else if (c.integer("output_dtype", 0) != 0) {
    type = c.type("output_dtype").value_or(type);
  }
  if (!c.b.ok()) return;
  c.out(quantised(c, x, scale, zero, type));
}

void dequantize_linear(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.integer("axis", 1);
  const Value scale = along(c, c.in(1), x, axis);
  const Type type = c.b.type(scale);
  Value real = c.b.cast(x, Type::kI32);
  if (c.has(2)) real = c.b.subtract(real, c.b.cast(along(c, c.in(2), x, axis), Type::kI32));
  c.out(c.b.multiply(c.b.cast(real, type), scale));
}

void dynamic_quantize_linear(Call& c) {
  const Value x = c.in(0);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < c.b.rank(x); ++i) axes.push_back(i);
  const auto extreme = [&](Function function) {
    return c.b.map(function, c.b.reduce(function, x, axes, false), 0.0);
  };
  const Value most = extreme(Function::kMaximum), least = extreme(Function::kMinimum);
  const Value scale = c.b.map(Function::kDivide, c.b.subtract(most, least), 255.0);
  const Value zero_scaled = c.b.map(Function::kNegate, c.b.divide(least, scale));
  const Value zero = c.b.cast(c.b.map(Function::kRound, zero_scaled), Type::kU8);
  c.out(quantised(c, x, scale, zero, Type::kU8));
  c.out(scale);
  c.out(zero);
}

void matmul_integer(Call& c) {
  const Value a = without_zero(c, c.in(0), c.has(2) ? c.in(2) : graph::kNone, -1);
  const Value b = without_zero(c, c.in(1), c.has(3) ? c.in(3) : graph::kNone, -2);
  c.out(c.b.product(a, b));
}

void quantised_matmul(Call& c) {
  const Value a = without_zero(c, c.in(0), c.in(2), -1);
  const Value b = without_zero(c, c.in(3), c.in(5), -2);
  const Value factor = c.b.cast(c.b.multiply(c.in(1), c.in(4)), Type::kF32);
  const Value real = c.b.multiply(c.b.cast(c.b.product(a, b), Type::kF32), factor);
  c.out(quantised(c, real, c.b.cast(c.in(6), Type::kF32), c.in(7), c.b.type(c.in(7))));
}

constexpr Operator kQuantisationOperators[] = {
    {"DequantizeLinear", dequantize_linear}, {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"MatMulInteger", matmul_integer},       {"QLinearMatMul", quantised_matmul},
    {"QuantizeLinear", quantize_linear},
};

}  // namespace

Value without_zero(Call& c, Value x, Value zero, int64_t axis) {
  const Value whole = c.b.cast(x, Type::kI32);
  if (zero < 0) return whole;
  Value offset = c.b.cast(zero, Type::kI32);
  const Shape shape = c.b.shape(zero);
  if (shape.size() == 1 && shape[0] > 1) {
    // One for each row of the left operand, or column of the right one; of weights, output.
    Shape spread(static_cast<size_t>(c.b.rank(x)), 1);
    const int64_t rank = c.b.rank(x);
    const int64_t place = axis >= 0 ? axis : axis == -1 ? rank - 2 : rank - 1;
    if (place < 0 || place >= rank) return c.b.fail("a zero point of {}", shape[0]);
    spread[static_cast<size_t>(place)] = shape[0];
    offset = c.b.reshape(offset, spread);
  } else if (graph::elements_of(shape) == 1) {
    offset = c.b.reshape(offset, {});
  }
  return c.b.subtract(whole, offset);
}

Value quantised(Call& c, Value x, Value scale, Value zero, Type type) {
  if (graph::is_real(type)) return c.b.fail("numbers quantised to {}", graph::type_name(type));
  const Type real = c.b.type(x);
  scale = c.b.cast(scale, real);
  if (graph::elements_of(c.b.shape(scale)) == 1) scale = c.b.reshape(scale, {});
  Value y = c.b.map(Function::kRound, c.b.divide(x, scale));
  if (zero >= 0) {
    if (graph::elements_of(c.b.shape(zero)) == 1) zero = c.b.reshape(zero, {});
    y = c.b.add(y, c.b.cast(zero, real));
  }
  const Range range = range_of(type);
  y = c.b.map(Function::kMinimum, c.b.map(Function::kMaximum, y, range.least), range.most);
  return c.b.cast(y, type);
}

std::span<const Operator> quantisation_operators() { return kQuantisationOperators; }

}  // namespace neuron::onnx
