// SPDX-License-Identifier: Apache-2.0
// Losses, and the optimizers of the preview domain of training.
#include <cmath>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

// scores [batch, classes, places...] are logarithms of probabilities; labels lack the classes.
void likelihood_loss(Call& c, Value scores, size_t weight_input) {
  const Value labels = c.b.cast(c.in(1), Type::kI64);
  const Type type = c.b.type(scores);
  const Shape shape = c.b.shape(scores);
  Shape spread = c.b.shape(labels);
  if (shape.size() < 2 || spread.empty()) {
    c.b.fail("scores of {} and labels of {}", graph::shape_text(shape), graph::shape_text(spread));
    return;
  }
  spread.insert(spread.begin() + 1, 1);
  Shape classes(shape.size(), 1);
  classes[1] = shape[1];
  const Value numbers = c.b.counting(Type::kI64, classes, 1);
  const Value hit = c.b.map(Function::kEqual, numbers, c.b.reshape(labels, spread));
  const Value zero = c.b.scalar(type, 0);
  Value weights = c.b.scalar(type, 1);
  const bool weighted = c.has(weight_input);
  if (weighted) weights = c.b.reshape(c.in(weight_input), classes);
  Value loss = c.b.select(hit, c.b.map(Function::kNegate, c.b.multiply(scores, weights)), zero);
  loss = c.b.reduce(Function::kAdd, loss, {1}, false);
  Value used = c.b.reduce(Function::kAdd, c.b.select(hit, weights, zero), {1}, false);
  if (c.has_attribute("ignore_index")) {
    const auto ignored = static_cast<double>(c.integer("ignore_index", 0));
    const Value skip = c.b.map(Function::kEqual, labels, ignored);
    loss = c.b.select(skip, zero, loss);
    used = c.b.select(skip, zero, used);
  }
  const std::string how = c.text("reduction", "mean");
  if (how != "none" && how != "sum" && how != "mean") {
    c.b.fail("the reduction \"{}\"", base::escaped(how));
    return;
  }
  if (how == "none") return c.out(loss);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < c.b.rank(loss); ++i) axes.push_back(i);
  const Value sum = c.b.reduce(Function::kAdd, loss, axes, false);
  if (how == "sum") return c.out(sum);
  c.out(c.b.divide(sum, c.b.reduce(Function::kAdd, used, axes, false)));
}

void negative_log_likelihood(Call& c) { likelihood_loss(c, c.in(0), 2); }

void softmax_cross_entropy(Call& c) {
  const Value x = c.in(0);
  const Value lowered = c.b.subtract(x, c.b.reduce(Function::kMaximum, x, {1}, true));
  const Value sum = c.b.reduce(Function::kAdd, c.b.map(Function::kExp, lowered), {1}, true);
  const Value scores = c.b.subtract(lowered, c.b.map(Function::kLog, sum));
  likelihood_loss(c, scores, 2);
  c.out(scores);
}

// Inputs are rate, step, then `kinds` lists of equally many tensors.
struct Update {
  Value rate, step;
  size_t tensors = 0;
};

Update update_of(Call& c, size_t kinds) {
  if (c.count() < 2 + kinds || (c.count() - 2) % kinds != 0) {
    c.b.fail("{} inputs, expected 2 and {} for each tensor", c.count(), kinds);
    return {c.in(0), c.in(1), 0};
  }
  return {c.in(0), c.in(1), (c.count() - 2) / kinds};
}

Value scaled(Call& c, Value x, double factor) { return c.b.map(Function::kMultiply, x, factor); }

void adagrad(Call& c) {
  const Update u = update_of(c, 3);
  const double norm = c.real("norm_coefficient", 0), epsilon = c.real("epsilon", 0);
  const Value steps = c.b.cast(u.step, c.b.type(u.rate));
  const Value decay = c.b.map(Function::kAdd, scaled(c, steps, c.real("decay_factor", 0)), 1.0);
  const Value rate = c.b.divide(u.rate, decay);
  std::vector<Value> tensors, sums;
  for (size_t i = 0; i < u.tensors; ++i) {
    const Value x = c.in(2 + i);
    const Value slope = c.b.add(c.in(2 + u.tensors + i), scaled(c, x, norm));
    sums.push_back(c.b.add(c.in(2 + 2 * u.tensors + i), c.b.multiply(slope, slope)));
    const Value size = c.b.map(Function::kAdd, c.b.map(Function::kSqrt, sums.back()), epsilon);
    tensors.push_back(c.b.subtract(x, c.b.divide(c.b.multiply(rate, slope), size)));
  }
  for (const Value x : tensors) c.out(x);
  for (const Value x : sums) c.out(x);
}

void adam(Call& c) {
  const Update u = update_of(c, 4);
  const double alpha = c.real("alpha", 0.9), beta = c.real("beta", 0.999);
  const double norm = c.real("norm_coefficient", 0), after = c.real("norm_coefficient_post", 0);
  const Type type = c.b.type(u.rate);
  const Value steps = c.b.cast(u.step, type);
  // Before the first step there is nothing to correct.
  const auto lacks = [&](double base) {
    const Value rest = c.b.map(Function::kPower, c.b.scalar(type, base), steps);
    return c.b.subtract(c.b.scalar(type, 1), rest);
  };
  const Value of_means = lacks(alpha);
  const Value corrected =
      c.b.multiply(u.rate, c.b.divide(c.b.map(Function::kSqrt, lacks(beta)), of_means));
  const Value rate = c.b.select(c.b.map(Function::kGreater, steps, 0.0), corrected, u.rate);
  std::vector<Value> tensors, means, squares;
  for (size_t i = 0; i < u.tensors; ++i) {
    const Value x = c.in(2 + i);
    const Value slope = c.b.add(c.in(2 + u.tensors + i), scaled(c, x, norm));
    const Value new_mean = scaled(c, slope, 1 - alpha);
    means.push_back(c.b.add(scaled(c, c.in(2 + 2 * u.tensors + i), alpha), new_mean));
    const Value new_square = scaled(c, c.b.multiply(slope, slope), 1 - beta);
    squares.push_back(c.b.add(scaled(c, c.in(2 + 3 * u.tensors + i), beta), new_square));
    const Value size =
        c.b.map(Function::kAdd, c.b.map(Function::kSqrt, squares.back()), c.real("epsilon", 0));
    const Value moved = c.b.subtract(x, c.b.multiply(rate, c.b.divide(means.back(), size)));
    tensors.push_back(scaled(c, moved, 1 - after));
  }
  for (const auto& list : {tensors, means, squares}) {
    for (const Value x : list) c.out(x);
  }
}

void momentum(Call& c) {
  const Update u = update_of(c, 3);
  const double alpha = c.real("alpha", 0), beta = c.real("beta", 0);
  const double norm = c.real("norm_coefficient", 0);
  const bool nesterov = c.text("mode", "standard") == "nesterov";
  const Type type = c.b.type(u.rate);
  const Value later = c.b.map(Function::kGreater, u.step, 0.0);
  const Value whole = c.b.scalar(type, 1);
  const Value weight = c.b.select(later, c.b.scalar(type, beta), whole);
  std::vector<Value> tensors, speeds;
  for (size_t i = 0; i < u.tensors; ++i) {
    const Value x = c.in(2 + i);
    const Value slope = c.b.add(c.in(2 + u.tensors + i), scaled(c, x, norm));
    const Value more = c.b.multiply(slope, weight);
    const Value speed = c.b.add(scaled(c, c.in(2 + 2 * u.tensors + i), alpha), more);
    speeds.push_back(speed);
    const Value way = nesterov ? c.b.add(slope, scaled(c, speed, alpha)) : speed;
    tensors.push_back(c.b.subtract(x, c.b.multiply(u.rate, way)));
  }
  for (const Value x : tensors) c.out(x);
  for (const Value x : speeds) c.out(x);
}

constexpr Operator kLossOperators[] = {
    {"NegativeLogLikelihoodLoss", negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
    {"ai.onnx.preview.training.Adagrad", adagrad},
    {"ai.onnx.preview.training.Adam", adam},
    {"ai.onnx.preview.training.Momentum", momentum},
};

}  // namespace

std::span<const Operator> loss_operators() { return kLossOperators; }

}  // namespace neuron::onnx
