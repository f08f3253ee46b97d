// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN: unrolled over the steps, whose number is a shape.
#include <algorithm>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

constexpr int64_t kMostSteps = 4096;

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

// The parameters of those that have some, by the standard's defaults.
Activation activation_of(const std::string& name) {
  if (name == "LeakyRelu") return {name, 0.01, 0};
  if (name == "ThresholdedRelu" || name == "Elu") return {name, 1, 0};
  if (name == "HardSigmoid") return {name, 0.2, 0.5};
  if (name == "ScaledTanh" || name == "Affine") return {name, 1, name == "Affine" ? 0.0 : 1.0};
  return {name, 0, 0};
}

Value activated(Call& c, const Activation& f, Value x) {
  Builder& b = c.b;
  const auto times = [&](Value value, double factor) {
    return b.map(Function::kMultiply, value, factor);
  };
  const auto low = [&] { return b.map(Function::kMinimum, x, 0.0); };
  const auto high = [&] { return b.map(Function::kMaximum, x, 0.0); };
  if (f.name == "Tanh") return b.map(Function::kTanh, x);
  if (f.name == "Sigmoid") return b.map(Function::kSigmoid, x);
  if (f.name == "Relu") return high();
  if (f.name == "Softplus") return b.map(Function::kSoftplus, x);
  if (f.name == "LeakyRelu") {
    const Value below = times(low(), f.alpha);
    return b.add(high(), below);
  }
  if (f.name == "Affine") return b.map(Function::kAdd, times(x, f.alpha), f.beta);
  if (f.name == "ScaledTanh") return times(b.map(Function::kTanh, times(x, f.beta)), f.alpha);
  if (f.name == "Softsign") {
    return b.divide(x, b.map(Function::kAdd, b.map(Function::kAbsolute, x), 1.0));
  }
  if (f.name == "Elu") {
    const Value e = b.map(Function::kSubtract, b.map(Function::kExp, low()), 1.0);
    const Value below = times(e, f.alpha);
    return b.add(high(), below);
  }
  if (f.name == "HardSigmoid") {
    const Value y = b.map(Function::kAdd, times(x, f.alpha), f.beta);
    return b.map(Function::kMinimum, b.map(Function::kMaximum, y, 0.0), 1.0);
  }
  if (f.name == "ThresholdedRelu") {
    const Value zero = b.scalar(b.type(x), 0);
    return b.select(b.map(Function::kGreater, x, f.alpha), x, zero);
  }
  return b.fail("the activation \"{}\"", base::escaped(f.name));
}

// What one direction works with. Weights are turned: [inputs, gates * hidden].
struct Direction {
  Value w, r, wb, rb;  // biases [1, gates * hidden]
  Value h, cell, peephole;
  std::vector<Activation> activations;
  bool backwards = false;
};

class Recurrent {
 public:
  Recurrent(Call& call, int64_t gates, std::vector<std::string> usual)
      : c_(call), b_(call.b), gates_(gates), usual_(std::move(usual)) {}
  virtual ~Recurrent() = default;

  void import(bool has_cell);

 protected:
  // The state after one step; `cell` is changed in place.
  virtual Value step(const Direction& d, Value x, Value h, Value& cell) = 0;

  Value gate(Value all, int64_t number) {
    return b_.slice_axis(all, 1, {number * hidden_, hidden_, 1});
  }
  Value sums(Value x, Value weights, Value bias) { return b_.add(b_.product(x, weights), bias); }
  Value clipped(Value x) {
    if (!c_.has_attribute("clip")) return x;
    const double limit = c_.real("clip", 0);
    return b_.map(Function::kMaximum, b_.map(Function::kMinimum, x, limit), -limit);
  }
  Value act(const Direction& d, size_t number, Value x) {
    if (number >= d.activations.size()) return b_.fail("an activation is missing");
    return activated(c_, d.activations[number], clipped(x));
  }

  Call& c_;
  Builder& b_;
  int64_t gates_, hidden_ = 0, batch_ = 1;

 private:
  bool read(bool has_cell);
  Direction direction(int64_t number, bool has_cell);
  Value of_direction(size_t input, int64_t number, Shape shape);
  void run(const Direction& d, bool has_cell);

  std::vector<std::string> usual_;
  int64_t steps_ = 0, directions_ = 1, width_ = 0;
  bool batch_first_ = false;
  Value x_ = graph::kNone, lengths_ = graph::kNone;
  std::vector<std::vector<Value>> all_;  // by direction and step
  std::vector<Value> last_, last_cell_;
};

bool Recurrent::read(bool has_cell) {
  x_ = c_.in(0);
  batch_first_ = c_.integer("layout", 0) != 0;
  if (batch_first_) x_ = b_.transpose(x_, {1, 0, 2});
  const Shape shape = b_.shape(x_), weights = c_.shape(2);
  if (!b_.ok()) return false;
  if (shape.size() != 3 || weights.size() != 3 || shape[0] > kMostSteps) {
    b_.fail("a sequence of {} and weights of {}; at most {} steps are unrolled",
            graph::shape_text(shape), graph::shape_text(weights), kMostSteps);
    return false;
  }
  steps_ = shape[0];
  batch_ = shape[1];
  width_ = shape[2];
  hidden_ = weights[2];
  directions_ = weights[0];
  if (c_.has(4)) lengths_ = b_.cast(c_.in(4), Type::kI32);
  return steps_ > 0 && (directions_ == 1 || directions_ == 2) && (has_cell || gates_ > 0);
}

Value Recurrent::of_direction(size_t input, int64_t number, Shape shape) {
  if (!c_.has(input)) {
    Shape small(shape.size(), 1);
    return b_.expand(b_.reshape(b_.scalar(b_.type(x_), 0), small), shape);
  }
  return b_.reshape(b_.slice_axis(c_.in(input), 0, {number, 1, 1}), shape);
}

Direction Recurrent::direction(int64_t number, bool has_cell) {
  Direction d;
  const int64_t all = gates_ * hidden_;
  d.w = b_.transpose(of_direction(1, number, {all, width_}), {1, 0});
  d.r = b_.transpose(of_direction(2, number, {all, hidden_}), {1, 0});
  const Value biases = of_direction(3, number, {1, 2 * all});
  d.wb = b_.slice_axis(biases, 1, {0, all, 1});
  d.rb = b_.slice_axis(biases, 1, {all, all, 1});
  const auto state = [&](size_t input) {
    // With a batch in front, states have it in front, too.
    if (!c_.has(input) || !batch_first_) return of_direction(input, number, {batch_, hidden_});
    return b_.reshape(b_.slice_axis(c_.in(input), 1, {number, 1, 1}), {batch_, hidden_});
  };
  d.h = state(5);
  if (has_cell) d.cell = state(6);
  if (has_cell) d.peephole = of_direction(7, number, {1, 3 * hidden_});
  const std::string way = c_.text("direction", "forward");
  d.backwards = way == "reverse" || number == 1;
  std::vector<std::string> names = usual_;
  if (const std::vector<std::string> given = c_.texts("activations"); !given.empty()) {
    names.clear();
    for (size_t i = 0; i < usual_.size(); ++i) {
      const size_t place = static_cast<size_t>(number) * usual_.size() + i;
      if (place < given.size()) names.push_back(given[place]);
    }
  }
  const std::vector<double> alphas = c_.reals("activation_alpha"),
                            betas = c_.reals("activation_beta");
  for (size_t i = 0; i < names.size(); ++i) {
    Activation activation = activation_of(names[i]);
    const size_t place = static_cast<size_t>(number) * usual_.size() + i;
    if (place < alphas.size()) activation.alpha = alphas[place];
    if (place < betas.size()) activation.beta = betas[place];
    d.activations.push_back(activation);
  }
  return d;
}

void Recurrent::run(const Direction& d, bool has_cell) {
  Value h = d.h, cell = d.cell;
  std::vector<Value> list(static_cast<size_t>(steps_), graph::kNone);
  for (int64_t i = 0; i < steps_ && b_.ok(); ++i) {
    const int64_t t = d.backwards ? steps_ - 1 - i : i;
    const Value x = b_.reshape(b_.slice_axis(x_, 0, {t, 1, 1}), {batch_, width_});
    Value next_cell = cell;
    Value next = step(d, x, h, next_cell);
    Value out = next;
    if (lengths_ >= 0) {
      // Behind the end of a sequence the state stays, and the output is 0.
      const Value inside =
          b_.reshape(b_.map(Function::kGreater, lengths_, static_cast<double>(t)), {batch_, 1});
      out = b_.select(inside, next, b_.scalar(b_.type(next), 0));
      next = b_.select(inside, next, h);
      if (has_cell) next_cell = b_.select(inside, next_cell, cell);
    }
    h = next;
    cell = next_cell;
    list[static_cast<size_t>(t)] = out;
  }
  all_.push_back(std::move(list));
  last_.push_back(h);
  if (has_cell) last_cell_.push_back(cell);
}

void Recurrent::import(bool has_cell) {
  if (!read(has_cell)) {
    if (b_.ok()) b_.fail("{} steps and {} directions", steps_, directions_);
    return;
  }
  for (int64_t i = 0; i < directions_; ++i) run(direction(i, has_cell), has_cell);
  if (!b_.ok()) return;
  std::vector<Value> rows;
  for (int64_t t = 0; t < steps_; ++t) {
    for (const auto& list : all_) {
      rows.push_back(b_.reshape(list[static_cast<size_t>(t)], {1, batch_, hidden_}));
    }
  }
  Value y = b_.reshape(b_.concat(rows, 0), {steps_, directions_, batch_, hidden_});
  const auto states = [&](const std::vector<Value>& list) {
    std::vector<Value> parts;
    for (const Value value : list) parts.push_back(b_.reshape(value, {1, batch_, hidden_}));
    const Value all = b_.concat(parts, 0);
    return batch_first_ ? b_.transpose(all, {1, 0, 2}) : all;
  };
  if (batch_first_) y = b_.transpose(y, {2, 0, 1, 3});
  c_.out(y);
  c_.out(states(last_));
  if (has_cell) c_.out(states(last_cell_));
}

class PlainNetwork : public Recurrent {
 public:
  explicit PlainNetwork(Call& call) : Recurrent(call, 1, {"Tanh"}) {}

 private:
  Value step(const Direction& d, Value x, Value h, Value&) override {
    const Value from_h = sums(h, d.r, d.rb);
    return act(d, 0, b_.add(sums(x, d.w, d.wb), from_h));
  }
};

class GatedUnit : public Recurrent {
 public:
  explicit GatedUnit(Call& call) : Recurrent(call, 3, {"Sigmoid", "Tanh"}) {}

 private:
  // Gates are update, reset, hidden.
  Value step(const Direction& d, Value x, Value h, Value&) override {
    const Value from_x = sums(x, d.w, d.wb), from_h = sums(h, d.r, d.rb);
    const Value update_h = gate(from_h, 0);
    const Value update = act(d, 0, b_.add(gate(from_x, 0), update_h));
    const Value reset_h = gate(from_h, 1);
    const Value reset = act(d, 0, b_.add(gate(from_x, 1), reset_h));
    Value inner = graph::kNone;
    if (c_.integer("linear_before_reset", 0) != 0) {
      inner = b_.multiply(reset, gate(from_h, 2));
    } else {
      inner = gate(sums(b_.multiply(reset, h), d.r, d.rb), 2);
    }
    const Value hidden = act(d, 1, b_.add(gate(from_x, 2), inner));
    const Value rest = b_.subtract(b_.scalar(b_.type(update), 1), update);
    const Value kept = b_.multiply(update, h);
    return b_.add(b_.multiply(rest, hidden), kept);
  }
};

class LongShortTermMemory : public Recurrent {
 public:
  explicit LongShortTermMemory(Call& call) : Recurrent(call, 4, {"Sigmoid", "Tanh", "Tanh"}) {}

 private:
  // Gates are input, output, forget, cell; peepholes input, output, forget.
  Value step(const Direction& d, Value x, Value h, Value& cell) override {
    const Value from_h = sums(h, d.r, d.rb);
    const Value all = b_.add(sums(x, d.w, d.wb), from_h);
    const auto seen = [&](int64_t number, Value state) {
      const Value sum = gate(all, number);
      return c_.has(7) ? b_.add(sum, b_.multiply(gate(d.peephole, number), state)) : sum;
    };
    const Value input = act(d, 0, seen(0, cell));
    const Value forget = c_.integer("input_forget", 0) != 0
                             ? b_.subtract(b_.scalar(b_.type(input), 1), input)
                             : act(d, 0, seen(2, cell));
    const Value fresh = act(d, 1, gate(all, 3));
    const Value more = b_.multiply(input, fresh);
    cell = b_.add(b_.multiply(forget, cell), more);
    const Value shown = act(d, 2, cell);
    return b_.multiply(act(d, 0, seen(1, cell)), shown);
  }
};

constexpr Operator kRecurrentOperators[] = {
    {"GRU", [](Call& c) { GatedUnit(c).import(false); }},
    {"LSTM", [](Call& c) { LongShortTermMemory(c).import(true); }},
    {"RNN", [](Call& c) { PlainNetwork(c).import(false); }},
};

}  // namespace

std::span<const Operator> recurrent_operators() { return kRecurrentOperators; }

}  // namespace neuron::onnx
