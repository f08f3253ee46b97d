// SPDX-License-Identifier: Apache-2.0
// Elements and rows by their numbers.
#include <algorithm>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

// Numbers within a dimension of `count`, negative ones from its end, as i64.
Value from_front(Call& c, Value numbers, int64_t count) {
  numbers = c.b.cast(numbers, Type::kI64);
  const Value from_end = c.b.map(Function::kAdd, numbers, static_cast<double>(count));
  return c.b.select(c.b.map(Function::kLess, numbers, 0.0), from_end, numbers);
}

void gather(Call& c) { c.out(c.b.take(c.in(0), c.in(1), c.integer("axis", 0))); }

// The number, among all elements of an array of `shape`, of the element that has number
// numbers[i...] along the axis and the place i... otherwise.
Value element_numbers(Call& c, Value numbers, const Shape& shape, int64_t axis) {
  const Shape steps = graph::strides_of(shape), places = c.b.shape(numbers);
  bool fits = places.size() == shape.size();
  for (int64_t i = 0; fits && i < static_cast<int64_t>(shape.size()); ++i) {
    fits = i == axis || places[at(i)] <= shape[at(i)];
  }
  if (!fits) {
    return c.b.fail("numbers of {} in an array of {}", graph::shape_text(places),
                    graph::shape_text(shape));
  }
  Value flat = c.b.map(Function::kMultiply, from_front(c, numbers, shape[at(axis)]),
                       static_cast<double>(steps[at(axis)]));
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
    if (i == axis || places[at(i)] == 1) continue;
    const Value place = c.b.counting(Type::kI64, places, i);
    flat = c.b.add(flat, c.b.map(Function::kMultiply, place, static_cast<double>(steps[at(i)])));
  }
  return flat;
}

Value column(Call& c, Value x) { return c.b.reshape(x, {graph::elements_of(c.b.shape(x)), 1}); }
Value line(Call& c, Value x) { return c.b.reshape(x, {graph::elements_of(c.b.shape(x))}); }

void gather_elements(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.b.axis(x, c.integer("axis", 0));
  if (!c.b.ok()) return;
  const Value flat = element_numbers(c, c.in(1), c.b.shape(x), axis);
  const Value places = line(c, flat);
  c.out(c.b.reshape(c.b.gather(column(c, x), places), c.shape(1)));
}

// Rows that tuples of numbers name: how many, how wide, and their numbers.
struct Tuples {
  Value numbers = graph::kNone;
  int64_t rows = 1, width = 1;
  Shape outer, inner;  // dimensions of the tuples, and of a row
};

bool read_tuples(Call& c, const Shape& shape, int64_t batch_axes, Tuples& t) {
  const Value tuples = c.in(1);
  const Shape places = c.b.shape(tuples);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t length = places.empty() ? -1 : places.back();
  const bool fits = length >= 1 && batch_axes >= 0 &&
                    batch_axes < static_cast<int64_t>(places.size()) && batch_axes <= rank &&
                    length <= rank - batch_axes &&
                    std::equal(shape.begin(), shape.begin() + batch_axes, places.begin());
  if (!fits) {
    c.b.fail("tuples of {} in an array of {}", graph::shape_text(places), graph::shape_text(shape));
    return false;
  }
  t.outer = Shape(places.begin(), places.end() - 1);
  t.inner = Shape(shape.begin() + batch_axes + length, shape.end());
  t.width = graph::elements_of(t.inner);
  t.rows = graph::elements_of(shape) / std::max<int64_t>(1, t.width);
  Value flat = graph::kNone;
  int64_t step = 1;
  for (int64_t i = batch_axes + length; i-- > 0;) {
    Value part = graph::kNone;
    if (i >= batch_axes) {
      const Value all =
          c.b.slice_axis(tuples, static_cast<int64_t>(places.size()) - 1, {i - batch_axes, 1, 1});
      part = from_front(c, c.b.reshape(all, t.outer), shape[at(i)]);
    } else {
      part = c.b.counting(Type::kI64, t.outer, i);
    }
    part = c.b.map(Function::kMultiply, part, static_cast<double>(step));
    flat = flat == graph::kNone ? part : c.b.add(flat, part);
    step *= shape[at(i)];
  }
  t.numbers = line(c, flat);
  return c.b.ok();
}

void gather_tuples(Call& c) {
  const Value x = c.in(0);
  Tuples t;
  if (!read_tuples(c, c.b.shape(x), c.integer("batch_dims", 0), t)) return;
  Shape result = t.outer;
  result.insert(result.end(), t.inner.begin(), t.inner.end());
  c.out(c.b.reshape(c.b.gather(c.b.reshape(x, {t.rows, t.width}), t.numbers), result));
}

// How rows are combined; fails on names that are not known.
std::optional<Function> reduction_of(Call& c) {
  const std::string name = c.text("reduction", "none");
  if (name == "none") return std::nullopt;
  if (name == "add") return Function::kAdd;
  if (name == "mul") return Function::kMultiply;
  if (name == "max") return Function::kMaximum;
  if (name == "min") return Function::kMinimum;
  c.b.fail("the reduction \"{}\"", base::escaped(name));
  return std::nullopt;
}

void scatter_elements(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.b.axis(x, c.integer("axis", 0));
  if (!c.b.ok()) return;
  const Value flat = element_numbers(c, c.in(1), c.b.shape(x), axis);
  const Value rows = column(c, c.in(2)), places = line(c, flat);
  const Value y = c.b.scatter(column(c, x), places, rows, reduction_of(c));
  c.out(c.b.reshape(y, c.b.shape(x)));
}

void scatter_tuples(Call& c) {
  const Value x = c.in(0);
  Tuples t;
  if (!read_tuples(c, c.b.shape(x), 0, t)) return;
  const Value rows = c.b.reshape(c.in(2), {graph::elements_of(t.outer), t.width});
  const Value y = c.b.scatter(c.b.reshape(x, {t.rows, t.width}), t.numbers, rows, reduction_of(c));
  c.out(c.b.reshape(y, c.b.shape(x)));
}

void one_hot(Call& c) {
  const std::vector<int64_t> depth = c.known_integers(1);
  if (depth.size() != 1) return;
  const Value values = c.in(2);
  Shape shape = c.shape(0);
  int64_t axis = c.integer("axis", -1);
  const auto rank = static_cast<int64_t>(shape.size()) + 1;
  axis = c.b.axis_of(rank, axis);
  if (depth[0] < 1) c.b.fail("a depth of {}", depth[0]);
  if (!c.b.ok()) return;
  shape.insert(shape.begin() + axis, 1);
  // Numbers may be real.
  const Value numbers = from_front(c, c.b.reshape(c.in(0), shape), depth[0]);
  Shape all = shape;
  all[at(axis)] = depth[0];
  const Value hit = c.b.map(Function::kEqual, c.b.counting(Type::kI64, all, axis), numbers);
  const auto value = [&](int64_t i) {
    return c.b.reshape(c.b.slice_axis(values, 0, {i, 1, 1}), {});
  };
  c.out(c.b.select(hit, value(1), value(0)));
}

void compress(Call& c) {
  Value x = c.in(0);
  const std::vector<int64_t> kept = c.known_integers(1);
  int64_t axis = 0;
  if (c.has_attribute("axis")) {
    axis = c.b.axis(x, c.integer("axis", 0));
  } else {
    x = line(c, x);
  }
  std::vector<int64_t> places;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != 0) places.push_back(static_cast<int64_t>(i));
  }
  c.out(c.b.pick(x, axis, places));
}

void array_feature_extractor(Call& c) { c.out(c.b.take(c.in(0), c.in(1), -1)); }

constexpr Operator kIndexOperators[] = {
    {"Compress", compress},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_tuples},
    {"OneHot", one_hot},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_tuples},
    {"ai.onnx.ml.ArrayFeatureExtractor", array_feature_extractor},
};

}  // namespace

std::span<const Operator> index_operators() { return kIndexOperators; }

}  // namespace neuron::onnx
