// SPDX-License-Identifier: Apache-2.0
// Normalisations: by means and variances, or by sums of squares.
#include <algorithm>

#include "tools/compiler/onnx/operators.h"
#include "tools/compiler/onnx/spatial.h"

namespace neuron::onnx {
namespace {

struct Moments {
  Value centred, mean, variance;
};

double count_of(Call& c, Value x, const std::vector<int64_t>& axes) {
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(c.b.size(x, axis));
  return count;
}

Moments moments_of(Call& c, Value x, const std::vector<int64_t>& axes) {
  const double count = count_of(c, x, axes);
  const auto mean = [&](Value values) {
    return c.b.map(Function::kDivide, c.b.reduce(Function::kAdd, values, axes, true), count);
  };
  Moments moments;
  moments.mean = mean(x);
  moments.centred = c.b.subtract(x, moments.mean);
  moments.variance = mean(c.b.multiply(moments.centred, moments.centred));
  return moments;
}

Value inverse_deviation(Call& c, Value variance, double epsilon) {
  const Value root = c.b.map(Function::kSqrt, c.b.map(Function::kAdd, variance, epsilon));
  return c.b.divide(c.b.scalar(c.b.type(variance), 1), root);
}

// One number for each channel, as a shape that fits x.
Value of_channels(Call& c, Value numbers, Value x) {
  Shape shape(static_cast<size_t>(std::max<int64_t>(2, c.b.rank(x))), 1);
  shape[1] = graph::elements_of(c.b.shape(numbers));
  return c.b.reshape(c.b.cast(numbers, c.b.type(x)), shape);
}

std::vector<int64_t> axes_from(Call& c, Value x, int64_t first) {
  std::vector<int64_t> axes;
  for (int64_t i = first; i < c.b.rank(x); ++i) axes.push_back(i);
  return axes;
}

void batch_normalization(Call& c) {
  const Value x = c.in(0);
  const double epsilon = c.real("epsilon", 1e-5);
  const bool trains = c.opset() < 7    ? c.integer("is_test", 0) == 0
                      : c.opset() < 14 ? c.outputs() > 1
                                       : c.integer("training_mode", 0) != 0;
  const Value scale = of_channels(c, c.in(1), x), bias = of_channels(c, c.in(2), x);
  Value mean = of_channels(c, c.in(3), x), variance = of_channels(c, c.in(4), x);
  std::vector<int64_t> axes = {0};
  for (const int64_t axis : axes_from(c, x, 2)) axes.push_back(axis);
  const Moments own = trains ? moments_of(c, x, axes) : Moments{};
  const Value centred = trains ? own.centred : c.b.subtract(x, mean);
  const Value inverse = inverse_deviation(c, trains ? own.variance : variance, epsilon);
  c.out(c.b.add(c.b.multiply(centred, c.b.multiply(inverse, scale)), bias));
  if (!trains || c.outputs() < 2) return;
  const double momentum = c.real("momentum", 0.9);
  const auto running = [&](Value old, Value now) {
    const Value more = c.b.map(Function::kMultiply, now, 1 - momentum);
    const Value sum = c.b.add(c.b.map(Function::kMultiply, old, momentum), more);
    return c.b.reshape(sum, {graph::elements_of(c.b.shape(old))});
  };
  c.out(running(mean, own.mean));
  c.out(running(variance, own.variance));
}

void instance_normalization(Call& c) {
  const Value x = c.in(0);
  const Moments own = moments_of(c, x, axes_from(c, x, 2));
  const Value inverse = inverse_deviation(c, own.variance, c.real("epsilon", 1e-5));
  const Value scale = of_channels(c, c.in(1), x);
  const Value y = c.b.multiply(c.b.multiply(own.centred, inverse), scale);
  c.out(c.b.add(y, of_channels(c, c.in(2), x)));
}

void layer_normalization(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.b.axis(x, c.integer("axis", -1));
  const Moments own = moments_of(c, x, axes_from(c, x, axis));
  const Value inverse = inverse_deviation(c, own.variance, c.real("epsilon", 1e-5));
  Value y = c.b.multiply(c.b.multiply(own.centred, inverse), c.in(1));
  if (c.has(2)) y = c.b.add(y, c.in(2));
  c.out(y);
  c.out(own.mean);
  c.out(inverse);
}

void group_normalization(Call& c) {
  const Value x = c.in(0);
  const Shape shape = c.b.shape(x);
  const int64_t groups = c.integer("num_groups", 1);
  if (shape.size() < 3 || groups < 1 || groups > shape[1] || shape[1] % groups != 0) {
    c.b.fail("{} groups of {}", groups, graph::shape_text(shape));
    return;
  }
  const int64_t rest = graph::elements_of(shape) / std::max<int64_t>(1, shape[0] * groups);
  const Moments own = moments_of(c, c.b.reshape(x, {shape[0], groups, rest}), {2});
  const Value inverse = inverse_deviation(c, own.variance, c.real("epsilon", 1e-5));
  const Value normal = c.b.reshape(c.b.multiply(own.centred, inverse), shape);
  // Before operator set 21, scale and bias are those of groups.
  const auto factor = [&](Value numbers) {
    if (c.opset() >= 21) return of_channels(c, numbers, x);
    const int64_t each = shape[1] / groups;
    const Value spread = c.b.expand(c.b.reshape(numbers, {groups, 1}), {groups, each});
    return of_channels(c, c.b.reshape(spread, {shape[1]}), x);
  };
  const Value bias = factor(c.in(2));
  c.out(c.b.add(c.b.multiply(normal, factor(c.in(1))), bias));
}

void mean_variance_normalization(Call& c) {
  const Value x = c.in(0);
  std::vector<int64_t> axes = c.integers("axes", {0, 2, 3});
  for (int64_t& axis : axes) axis = c.b.axis(x, axis);
  if (!c.b.ok()) return;
  const Moments own = moments_of(c, x, axes);
  const Value deviation = c.b.map(Function::kSqrt, own.variance);
  c.out(c.b.divide(own.centred, c.b.map(Function::kAdd, deviation, 1e-9)));
}

// Each element by the sum of squares of the channels beside it.
void local_response_normalization(Call& c) {
  const Value x = c.in(0);
  const int64_t size = c.integer("size", 1);
  const Shape shape = c.b.shape(x);
  if (shape.size() < 2 || size < 1 || size > 1 << 16) {
    c.b.fail("{} channels of {}", size, graph::shape_text(shape));
    return;
  }
  const int64_t rest = graph::elements_of(shape) / std::max<int64_t>(1, shape[0] * shape[1]);
  const Value squares = c.b.reshape(c.b.multiply(x, x), {shape[0], shape[1], rest});
  const Value last = c.b.transpose(squares, {0, 2, 1});
  const Value near = c.b.windows(last, 2, {{size, 1, shape[1], 1, -((size - 1) / 2)}}, 0, false);
  Value sum = c.b.transpose(c.b.reduce(Function::kAdd, near, {3}, false), {0, 2, 1});
  sum = c.b.reshape(sum, shape);
  sum = c.b.map(Function::kMultiply, sum, c.real("alpha", 1e-4) / static_cast<double>(size));
  sum = c.b.map(Function::kAdd, sum, c.real("bias", 1));
  c.out(c.b.divide(x, c.b.map(Function::kPower, sum, c.real("beta", 0.75))));
}

void power_normalization(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.b.axis(x, c.integer("axis", -1));
  if (c.integer("p", 2) == 1) {
    return c.out(
        c.b.divide(x, c.b.reduce(Function::kAdd, c.b.map(Function::kAbsolute, x), {axis}, true)));
  }
  const Value sum = c.b.reduce(Function::kAdd, c.b.multiply(x, x), {axis}, true);
  c.out(c.b.divide(x, c.b.map(Function::kSqrt, sum)));
}

constexpr Operator kNormalisationOperators[] = {
    {"BatchNormalization", batch_normalization},
    {"GroupNormalization", group_normalization},
    {"InstanceNormalization", instance_normalization},
    {"LRN", local_response_normalization},
    {"LayerNormalization", layer_normalization},
    {"LpNormalization", power_normalization},
    {"MeanVarianceNormalization", mean_variance_normalization},
};

}  // namespace

std::span<const Operator> normalisation_operators() { return kNormalisationOperators; }

}  // namespace neuron::onnx
