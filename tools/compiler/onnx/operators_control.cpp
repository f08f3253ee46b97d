// SPDX-License-Identifier: Apache-2.0
// Branches and loops. A branch on a constant is decided; on data, both sides run and one is
// selected. Loops of known length are unrolled.
#include <algorithm>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

constexpr int64_t kMostRounds = 4096;

void branch(Call& c) {
  const Value condition = c.in(0);
  if (const Tensor* known = c.b.constant_of(condition)) {
    const bool yes = known->elements() > 0 && known->real(0) != 0;
    for (Item& item : c.body(yes ? "then_branch" : "else_branch", {})) c.out(std::move(item));
    return;
  }
  const std::vector<Item> yes = c.body("then_branch", {}), no = c.body("else_branch", {});
  for (size_t i = 0; i < yes.size() && i < no.size() && c.b.ok(); ++i) {
    const bool tensors = yes[i].kind == Item::Kind::kTensor && no[i].kind == Item::Kind::kTensor;
    if (!tensors || c.b.shape(yes[i].value) != c.b.shape(no[i].value)) {
      // What comes out must be known then.
      c.known_value(condition);
      return;
    }
    c.out(c.b.select(c.b.reshape(condition, {}), yes[i].value, no[i].value));
  }
}

// Values of all rounds, one behind the other along a new axis.
Value stacked(Call& c, const std::vector<Value>& values, int64_t axis) {
  std::vector<Value> rows;
  for (const Value value : values) {
    Shape shape = c.b.shape(value);
    axis = c.b.axis_of(static_cast<int64_t>(shape.size()) + 1, axis);
    if (!c.b.ok()) return graph::kNone;
    shape.insert(shape.begin() + axis, 1);
    rows.push_back(c.b.reshape(value, shape));
  }
  return c.b.concat(rows, axis);
}

// Of a truth value that the rounds of a loop need.
std::optional<bool> truth(Call& c, Value value) {
  const Tensor* known = c.known_value(value);
  if (known == nullptr || known->elements() == 0) return std::nullopt;
  return known->real(0) != 0;
}

void loop(Call& c) {
  int64_t rounds = kMostRounds + 1;
  if (c.has(0)) {
    const std::vector<int64_t> given = c.known_integers(0);
    if (given.size() != 1) return;
    rounds = given[0];
  }
  Value condition = c.has(1) ? c.in(1) : c.b.scalar(Type::kBool, 1);
  std::vector<Item> carried;
  for (size_t i = 2; i < c.count(); ++i) carried.push_back(c.item(i));
  const size_t scans = c.outputs() > carried.size() ? c.outputs() - carried.size() : 0;
  std::vector<std::vector<Value>> lists(scans);
  for (int64_t round = 0; round < rounds; ++round) {
    const auto goes_on = truth(c, condition);
    if (!goes_on || !*goes_on) break;
    if (round >= kMostRounds) {
      c.b.fail("a loop of over {} rounds", kMostRounds);
      return;
    }
    std::vector<Item> inputs = {
        Item::of(c.b.constant(Tensor::of_integers(Type::kI64, {}, {round}))), Item::of(condition)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const std::vector<Item> outputs = c.body("body", inputs);
    if (!c.b.ok()) return;
    if (outputs.size() != 1 + carried.size() + scans) {
      c.b.fail("its body has {} outputs, expected {}", outputs.size(), 1 + carried.size() + scans);
      return;
    }
    condition = outputs[0].value;
    if (outputs[0].kind != Item::Kind::kTensor) c.b.fail("its condition is no tensor");
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = outputs[1 + i];
    for (size_t i = 0; i < scans; ++i) lists[i].push_back(outputs[1 + carried.size() + i].value);
  }
  for (const Item& item : carried) c.out(item);
  for (const std::vector<Value>& list : lists) {
    if (list.empty() && c.b.ok()) {
      c.refuse(graph::RefusalClass::kEmpty, "a loop without rounds gives arrays without elements");
    }
    c.out(stacked(c, list, 0));
  }
}

// Direction 1 is from the end.
bool reversed(const std::vector<int64_t>& directions, size_t number) {
  return number < directions.size() && directions[number] == 1;
}

int64_t axis_at(const std::vector<int64_t>& axes, size_t number) {
  return number < axes.size() ? axes[number] : 0;
}

struct ScanForm {
  size_t first = 0, states = 0, inputs = 0;
  std::vector<int64_t> input_axes, input_directions, output_axes, output_directions;
};

void scan_rows(Call& c, const ScanForm& form, std::vector<Item> states,
               const std::vector<Value>& sources, std::vector<std::vector<Value>>& lists) {
  int64_t rounds = -1;
  for (size_t i = 0; i < sources.size(); ++i) {
    const int64_t axis = c.b.axis(sources[i], axis_at(form.input_axes, i));
    rounds = c.b.size(sources[i], axis);
  }
  if (rounds < 1 || rounds > kMostRounds) c.b.fail("a scan of {} rounds", rounds);
  for (int64_t round = 0; round < rounds && c.b.ok(); ++round) {
    std::vector<Item> inputs = states;
    for (size_t i = 0; i < sources.size(); ++i) {
      const int64_t axis = c.b.axis(sources[i], axis_at(form.input_axes, i));
      const int64_t place = reversed(form.input_directions, i) ? rounds - 1 - round : round;
      const Value row = c.b.slice_axis(sources[i], axis, {place, 1, 1});
      Shape shape = c.b.shape(row);
      if (!c.b.ok()) return;
      shape.erase(shape.begin() + axis);
      inputs.push_back(Item::of(c.b.reshape(row, shape)));
    }
    const std::vector<Item> outputs = c.body("body", inputs);
    if (outputs.size() < form.states) {
      c.b.fail("its body has {} outputs, expected at least {}", outputs.size(), form.states);
      return;
    }
    std::copy_n(outputs.begin(), form.states, states.begin());
    lists.resize(outputs.size());
    for (size_t i = form.states; i < outputs.size(); ++i) lists[i].push_back(outputs[i].value);
  }
  if (!c.b.ok()) return;
  for (size_t i = 0; i < form.states; ++i) lists[i] = {states[i].value};
}

// The outputs of one scan.
std::vector<Value> scan_outputs(Call& c, const ScanForm& form,
                                std::vector<std::vector<Value>> lists) {
  std::vector<Value> outputs;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (i < form.states) {
      outputs.push_back(lists[i][0]);
      continue;
    }
    const size_t number = i - form.states;
    if (reversed(form.output_directions, number)) std::reverse(lists[i].begin(), lists[i].end());
    outputs.push_back(stacked(c, lists[i], axis_at(form.output_axes, number)));
  }
  return outputs;
}

void scan(Call& c) {
  ScanForm form;
  // Operator set 8 has a first input of lengths, and a batch in front of all others.
  const bool batches = c.opset() < 9;
  form.first = batches ? 1 : 0;
  form.inputs = static_cast<size_t>(std::max<int64_t>(0, c.integer("num_scan_inputs", 0)));
  if (c.count() < form.first + form.inputs || (batches && c.has(0))) {
    c.b.fail("{} inputs, {} of them scanned{}", c.count(), form.inputs,
             batches ? "; lengths are not supported" : "");
    return;
  }
  form.states = c.count() - form.first - form.inputs;
  form.input_axes = c.integers("scan_input_axes");
  form.output_axes = c.integers("scan_output_axes");
  form.input_directions = c.integers(batches ? "directions" : "scan_input_directions");
  form.output_directions = c.integers("scan_output_directions");
  const auto run = [&](const auto& select) {
    std::vector<Item> states;
    std::vector<Value> sources;
    for (size_t i = 0; i < form.states; ++i) {
      states.push_back(Item::of(select(c.in(form.first + i))));
    }
    for (size_t i = 0; i < form.inputs; ++i) {
      sources.push_back(select(c.in(form.first + form.states + i)));
    }
    std::vector<std::vector<Value>> lists(form.states);
    scan_rows(c, form, std::move(states), sources, lists);
    return c.b.ok() ? scan_outputs(c, form, std::move(lists)) : std::vector<Value>();
  };
  if (!batches) {
    for (const Value value : run([](Value x) { return x; })) c.out(value);
    return;
  }
  std::vector<std::vector<Value>> rows;
  const int64_t count = c.b.size(c.in(form.first), 0);
  for (int64_t batch = 0; batch < count && c.b.ok(); ++batch) {
    const std::vector<Value> outputs = run([&](Value x) {
      const Value row = c.b.slice_axis(x, 0, {batch, 1, 1});
      const Shape shape = c.b.shape(row);
      return shape.empty() ? row : c.b.reshape(row, {shape.begin() + 1, shape.end()});
    });
    rows.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) rows[i].push_back(outputs[i]);
  }
  for (const std::vector<Value>& list : rows) c.out(stacked(c, list, 0));
}

constexpr Operator kControlOperators[] = {{"If", branch}, {"Loop", loop}, {"Scan", scan}};

}  // namespace

std::span<const Operator> control_operators() { return kControlOperators; }

}  // namespace neuron::onnx
