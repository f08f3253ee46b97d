// SPDX-License-Identifier: Apache-2.0
// Operators along axes: reductions, softmax, running sums.
#include <algorithm>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

struct Axes {
  std::vector<int64_t> list;
  bool keep = true;
  bool nothing = false;  // the operator gives its input
};

// Axes became an input of the sum with operator set 13, of the others with 18.
Axes axes_of(Call& c, int64_t as_input) {
  Axes axes;
  axes.keep = c.integer("keepdims", 1) != 0;
  if (c.opset() >= as_input) {
    if (c.has(1)) axes.list = c.known_integers(1);
    axes.nothing = axes.list.empty() && c.integer("noop_with_empty_axes", 0) != 0;
  } else {
    axes.list = c.integers("axes");
  }
  if (axes.list.empty() && !axes.nothing) {
    for (int64_t i = 0; i < c.b.rank(c.in(0)); ++i) axes.list.push_back(i);
  }
  return axes;
}

Value folded(Call& c, Function function, Value x, const Axes& axes) {
  return axes.nothing ? x : c.b.reduce(function, x, axes.list, axes.keep);
}

template <Function kFunction, int64_t kAsInput>
void reduce(Call& c) {
  const Axes axes = axes_of(c, kAsInput);
  const Value x = c.in(0);
  // The largest of truth values is whether one is true.
  if (c.b.type(x) == Type::kBool) {
    return c.out(c.b.cast(folded(c, kFunction, c.b.cast(x, Type::kI32), axes), Type::kBool));
  }
  c.out(folded(c, kFunction, x, axes));
}

double folded_count(Call& c, Value x, const Axes& axes) {
  double count = 1;
  if (axes.nothing) return count;
  for (const int64_t axis : axes.list) count *= static_cast<double>(c.b.size(x, c.b.axis(x, axis)));
  return count;
}

void mean(Call& c) {
  const Axes axes = axes_of(c, 18);
  const Value x = c.in(0);
  const double count = folded_count(c, x, axes);
  c.out(c.b.map(Function::kDivide, folded(c, Function::kAdd, x, axes), count));
}

void norm_1(Call& c) {
  const Axes axes = axes_of(c, 18);
  c.out(folded(c, Function::kAdd, c.b.map(Function::kAbsolute, c.in(0)), axes));
}

Value sum_of_squares(Call& c) {
  const Axes axes = axes_of(c, 18);
  const Value x = c.in(0);
  return folded(c, Function::kAdd, c.b.multiply(x, x), axes);
}

void norm_2(Call& c) {
  const Value sum = sum_of_squares(c);
  const Type type = c.b.type(sum);
  const bool real = graph::is_real(type);
  const Value root = c.b.map(Function::kSqrt, real ? sum : c.b.cast(sum, Type::kF64));
  c.out(c.b.cast(root, type));
}

void sum_square(Call& c) { c.out(sum_of_squares(c)); }

void log_sum(Call& c) {
  const Axes axes = axes_of(c, 18);
  c.out(c.b.map(Function::kLog, folded(c, Function::kAdd, c.in(0), axes)));
}

void log_sum_exp(Call& c) {
  const Axes axes = axes_of(c, 18);
  const Value x = c.in(0);
  Axes kept = axes;
  kept.keep = true;
  Value largest = folded(c, Function::kMaximum, x, kept);
  // An infinite one has no differences.
  const Value infinite = c.b.map(Function::kIsInf, largest);
  largest = c.b.select(infinite, c.b.scalar(c.b.type(x), 0), largest);
  const Value sum =
      folded(c, Function::kAdd, c.b.map(Function::kExp, c.b.subtract(x, largest)), axes);
  const Value back = c.b.reshape(largest, c.b.shape(sum));
  c.out(c.b.add(c.b.map(Function::kLog, sum), back));
}

// Before operator set 13 all axes from `axis` on are one.
struct Softmax {
  Value x;
  std::vector<int64_t> axes;
};

Softmax softmax_of(Call& c) {
  const Value x = c.in(0);
  const bool flattens = c.opset() < 13;
  const int64_t axis = c.b.axis(x, c.integer("axis", flattens ? 1 : -1));
  std::vector<int64_t> axes = {axis};
  for (int64_t i = axis + 1; flattens && i < c.b.rank(x); ++i) axes.push_back(i);
  const Value largest = c.b.reduce(Function::kMaximum, x, axes, true);
  return {c.b.subtract(x, largest), axes};
}

void softmax(Call& c) {
  const Softmax lowered = softmax_of(c);
  const Value exponentials = c.b.map(Function::kExp, lowered.x);
  c.out(c.b.divide(exponentials, c.b.reduce(Function::kAdd, exponentials, lowered.axes, true)));
}

void log_softmax(Call& c) {
  const Softmax lowered = softmax_of(c);
  const Value sum =
      c.b.reduce(Function::kAdd, c.b.map(Function::kExp, lowered.x), lowered.axes, true);
  c.out(c.b.subtract(lowered.x, c.b.map(Function::kLog, sum)));
}

void hardmax(Call& c) {
  Value x = c.in(0);
  const Shape shape = c.b.shape(x);
  int64_t axis = c.b.axis(x, c.integer("axis", c.opset() < 13 ? 1 : -1));
  if (c.opset() < 13) {
    const Shape front(shape.begin(), shape.begin() + axis);
    const int64_t rows = graph::elements_of(front);
    x = c.b.reshape(x, {rows, graph::elements_of(shape) / std::max<int64_t>(1, rows)});
    axis = 1;
  }
  const Value best = c.b.best_index(x, axis, true, false);
  const Value places = c.b.counting(Type::kI64, c.b.shape(x), axis);
  const Value hit = c.b.map(Function::kEqual, places, best);
  c.out(c.b.reshape(c.b.cast(hit, c.b.type(x)), shape));
}

// Each element gets the sum of 1, 2, 4 ... elements before it; so what is infinite or NaN stays out
// of the sums in front of it, and whole numbers are exact.
void running_sum(Call& c) {
  const std::vector<int64_t> given = c.known_integers(1);
  if (given.size() != 1) {
    if (c.b.ok()) c.b.fail("{} axes, expected one", given.size());
    return;
  }
  const Type type = c.b.type(c.in(0));
  // Types of 16 bits would be rounded at each step.
  Value x = graph::is_real(type) ? c.b.cast(c.in(0), Type::kF32) : c.in(0);
  const int64_t axis = c.b.axis(x, given[0]);
  const int64_t count = c.b.size(x, axis);
  if (!c.b.ok()) return;
  const bool reverse = c.integer("reverse", 0) != 0;
  const auto moved = [&](int64_t distance) {
    std::vector<int64_t> before(static_cast<size_t>(c.b.rank(x)), 0), after = before;
    before[static_cast<size_t>(axis)] = reverse ? -distance : distance;
    after[static_cast<size_t>(axis)] = -before[static_cast<size_t>(axis)];
    return c.b.pad(x, before, after, 0);
  };
  if (c.integer("exclusive", 0) != 0) x = moved(1);
  for (int64_t distance = 1; distance < count; distance *= 2) x = c.b.add(moved(distance), x);
  c.out(c.b.cast(x, type));
}

constexpr Operator kReduceOperators[] = {
    {"CumSum", running_sum},
    {"Hardmax", hardmax},
    {"LogSoftmax", log_softmax},
    {"ReduceL1", norm_1},
    {"ReduceL2", norm_2},
    {"ReduceLogSum", log_sum},
    {"ReduceLogSumExp", log_sum_exp},
    {"ReduceMax", reduce<Function::kMaximum, 18>},
    {"ReduceMean", mean},
    {"ReduceMin", reduce<Function::kMinimum, 18>},
    {"ReduceProd", reduce<Function::kMultiply, 18>},
    {"ReduceSum", reduce<Function::kAdd, 13>},
    {"ReduceSumSquare", sum_square},
    {"Softmax", softmax},
};

}  // namespace

std::span<const Operator> reduce_operators() { return kReduceOperators; }

}  // namespace neuron::onnx
