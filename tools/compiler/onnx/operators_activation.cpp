// SPDX-License-Identifier: Apache-2.0
// Activation functions, which have parameters and are put together from maps.
#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

Value positive(Call& c, Value x) { return c.b.map(Function::kMaximum, x, 0.0); }
Value negative(Call& c, Value x) { return c.b.map(Function::kMinimum, x, 0.0); }

void relu(Call& c) { c.out(positive(c, c.in(0))); }

void leaky_relu(Call& c) {
  const Value x = c.in(0);
  const Value below = c.b.map(Function::kMultiply, negative(c, x), c.real("alpha", 0.01));
  c.out(c.b.add(positive(c, x), below));
}

void parametric_relu(Call& c) {
  const Value x = c.in(0);
  Value slope = c.in(1);
  // Before operator set 7 a slope of one dimension is one for each channel.
  if (c.opset() < 7 && c.b.rank(slope) == 1 && c.b.rank(x) > 2) {
    Shape shape(static_cast<size_t>(c.b.rank(x) - 1), 1);
    shape[0] = c.b.size(slope, 0);
    slope = c.b.reshape(slope, shape);
  }
  const Value below = c.b.multiply(slope, x);
  c.out(c.b.select(c.b.map(Function::kLess, x, 0.0), below, x));
}

// alpha * (exp(min(x, 0)) - 1)
Value exponential_below(Call& c, Value x, double alpha) {
  const Value exponential = c.b.map(Function::kExp, negative(c, x));
  return c.b.map(Function::kMultiply, c.b.map(Function::kSubtract, exponential, 1.0), alpha);
}

void elu(Call& c) {
  const Value x = c.in(0);
  const Value below = exponential_below(c, x, c.real("alpha", 1));
  c.out(c.b.add(positive(c, x), below));
}

void selu(Call& c) {
  const Value x = c.in(0);
  // The defaults are the constants of self-normalising networks.
  const double alpha = c.real("alpha", 1.67326319217681884765625);
  const double gamma = c.real("gamma", 1.05070102214813232421875);
  const Value below = exponential_below(c, x, alpha);
  c.out(c.b.map(Function::kMultiply, c.b.add(positive(c, x), below), gamma));
}

void celu(Call& c) {
  const Value x = c.in(0);
  const double alpha = c.real("alpha", 1);
  const Value scaled = c.b.map(Function::kDivide, x, alpha);
  const Value below = exponential_below(c, scaled, alpha);
  c.out(c.b.add(positive(c, x), below));
}

Value hard_sigmoid_of(Call& c, Value x, double alpha, double beta) {
  x = c.b.map(Function::kAdd, c.b.map(Function::kMultiply, x, alpha), beta);
  return c.b.map(Function::kMinimum, positive(c, x), 1.0);
}

void hard_sigmoid(Call& c) {
  c.out(hard_sigmoid_of(c, c.in(0), c.real("alpha", 0.2), c.real("beta", 0.5)));
}

void hard_swish(Call& c) {
  const Value x = c.in(0);
  c.out(c.b.multiply(x, hard_sigmoid_of(c, x, 1.0 / 6, 0.5)));
}

void softsign(Call& c) {
  const Value x = c.in(0);
  c.out(c.b.divide(x, c.b.map(Function::kAdd, c.b.map(Function::kAbsolute, x), 1.0)));
}

void thresholded_relu(Call& c) {
  const Value x = c.in(0);
  const Value above = c.b.map(Function::kGreater, x, c.real("alpha", 1));
  c.out(c.b.select(above, x, c.b.scalar(c.b.type(x), 0)));
}

void shrink(Call& c) {
  const Value x = c.in(0);
  const double limit = c.real("lambd", 0.5), bias = c.real("bias", 0);
  const Value zero = c.b.scalar(c.b.type(x), 0);
  const Value lowered = c.b.map(Function::kSubtract, x, bias);
  const Value high = c.b.select(c.b.map(Function::kGreater, x, limit), lowered, zero);
  const Value raised = c.b.map(Function::kAdd, x, bias);
  c.out(c.b.select(c.b.map(Function::kLess, x, -limit), raised, high));
}

void gelu(Call& c) {
  const Value x = c.in(0);
  Value inner = graph::kNone;
  if (c.text("approximate", "none") == "tanh") {
    const Value cube = c.b.multiply(x, c.b.multiply(x, x));
    inner = c.b.add(x, c.b.map(Function::kMultiply, cube, 0.044715));
    inner = c.b.map(Function::kTanh, c.b.map(Function::kMultiply, inner, 0.7978845608028654));
  } else {
    inner = c.b.map(Function::kErf, c.b.map(Function::kMultiply, x, 0.70710678118654752));
  }
  const Value twice = c.b.map(Function::kAdd, inner, 1.0);
  c.out(c.b.multiply(c.b.map(Function::kMultiply, x, 0.5), twice));
}

void mish(Call& c) {
  const Value x = c.in(0);
  c.out(c.b.multiply(x, c.b.map(Function::kTanh, c.b.map(Function::kSoftplus, x))));
}

void binarizer(Call& c) {
  const Value x = c.in(0);
  c.out(c.b.cast(c.b.map(Function::kGreater, x, c.real("threshold", 0)), c.b.type(x)));
}

constexpr Operator kActivationOperators[] = {
    {"Celu", celu},
    {"Elu", elu},
    {"Gelu", gelu},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"LeakyRelu", leaky_relu},
    {"Mish", mish},
    {"PRelu", parametric_relu},
    {"Relu", relu},
    {"Selu", selu},
    {"Shrink", shrink},
    {"Softsign", softsign},
    {"ThresholdedRelu", thresholded_relu},
    {"ai.onnx.ml.Binarizer", binarizer},
};

}  // namespace

std::span<const Operator> activation_operators() { return kActivationOperators; }

}  // namespace neuron::onnx
