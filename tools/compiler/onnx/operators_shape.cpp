// SPDX-License-Identifier: Apache-2.0
// Constants, shapes, and what gives its input on unchanged.
#include <algorithm>
#include <cmath>

#include "tools/compiler/onnx/model.pb.h"
#include "tools/compiler/onnx/operators.h"
#include "tools/compiler/onnx/tensor_reader.h"

namespace neuron::onnx {
namespace {

// The tensor in the attribute; fails if there is none.
Value attribute_tensor(Call& c, const file::TensorData& data) {
  auto tensor = read_tensor(data, "");
  if (!tensor && is_text(data.data_type())) {
    c.refuse(graph::RefusalClass::kStrings, tensor.error().sentence);
  }
  return tensor ? c.b.constant(std::move(*tensor)) : c.b.fail("{}", tensor.error().sentence);
}

Value sparse_tensor(Call& c, const file::SparseTensorData& data) {
  auto values = read_tensor(data.values(), ""), places = read_tensor(data.indices(), "");
  if (!values) return c.b.fail("its values: {}", values.error().sentence);
  if (!places) return c.b.fail("its indices: {}", places.error().sentence);
  const Shape shape(data.dims().begin(), data.dims().end());
  constexpr int64_t kMost = 1 << 24;
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 1 || count > kMost / size) {
      return c.b.fail("its shape is {}", graph::shape_text(shape));
    }
    count *= size;
  }
  Tensor dense = Tensor::zeros(values->type, shape);
  const Shape steps = graph::strides_of(shape);
  const auto given = static_cast<size_t>(values->elements());
  const size_t width = places->shape.size() == 2 ? shape.size() : 1;
  if (given * width != static_cast<size_t>(places->elements())) {
    return c.b.fail("it has {} values and {} indices", given, places->elements());
  }
  for (size_t i = 0; i < given; ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < width; ++d) {
      const int64_t place = places->integer(i * width + d);
      const bool flat = width == 1;
      if (place < 0 || place >= (flat ? dense.elements() : shape[d])) {
        return c.b.fail("an index is outside of its shape");
      }
      at += place * (flat ? 1 : steps[d]);
    }
    if (graph::is_real(dense.type)) {
      dense.reals[static_cast<size_t>(at)] = values->reals[i];
    } else {
      dense.integers[static_cast<size_t>(at)] = values->integers[i];
    }
  }
  return c.b.constant(std::move(dense));
}

void constant(Call& c) {
  if (const auto* found = c.attribute("value")) return c.out(attribute_tensor(c, found->t()));
  if (const auto* found = c.attribute("sparse_value")) {
    return c.out(sparse_tensor(c, found->sparse_tensor()));
  }
  if (c.has_attribute("value_int")) {
    return c.out(c.b.constant(Tensor::of_integers(Type::kI64, {}, {c.integer("value_int", 0)})));
  }
  if (c.has_attribute("value_ints")) return c.out(c.b.integers(c.integers("value_ints")));
  if (c.has_attribute("value_float")) {
    return c.out(c.b.scalar(Type::kF32, c.real("value_float", 0)));
  }
  if (c.has_attribute("value_floats")) {
    const std::vector<double> list = c.reals("value_floats");
    return c.out(
        c.b.constant(Tensor::of_reals(Type::kF32, {static_cast<int64_t>(list.size())}, list)));
  }
  if (c.has_attribute("value_string") || c.has_attribute("value_strings")) {
    c.refuse(graph::RefusalClass::kStrings, "it has strings, which have no form on the device");
  }
  c.b.fail("it has no value");
}

void constant_of_shape(Call& c) {
  const Shape shape = c.known_integers(0);
  Value value = c.b.scalar(Type::kF32, 0);
  if (const auto* found = c.attribute("value")) {
    value = c.b.reshape(attribute_tensor(c, found->t()), {});
  }
  c.out(c.b.expand(value, shape));
}

void shape(Call& c) {
  const Shape all = c.shape(0);
  const auto rank = static_cast<int64_t>(all.size());
  const auto clamped = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t start = clamped(c.integer("start", 0)), end = clamped(c.integer("end", rank));
  if (!c.b.ok()) return;
  c.out(c.b.integers(start < end ? Shape(all.begin() + start, all.begin() + end) : Shape()));
}

void size(Call& c) {
  c.out(c.b.constant(Tensor::of_integers(Type::kI64, {}, {graph::elements_of(c.shape(0))})));
}

void reshape(Call& c) {
  const Value x = c.in(0);
  Shape to = c.opset() < 5 ? c.integers("shape") : c.known_integers(1);
  const Shape from = c.b.shape(x);
  const bool zero_is_zero = c.integer("allowzero", 0) != 0;
  int64_t known = 1;
  size_t open = to.size();
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !zero_is_zero) to[i] = i < from.size() ? from[i] : 0;
    if (to[i] < -1 || (to[i] > 0 && known > (int64_t{1} << 40) / to[i])) {
      c.b.fail("the shape {}", graph::shape_text(to));
      return;
    }
    if (to[i] == -1) {
      open = i;
    } else {
      known *= to[i];
    }
  }
  if (open < to.size()) to[open] = known == 0 ? 0 : graph::elements_of(from) / known;
  c.out(c.b.reshape(x, to));
}

void flatten(Call& c) {
  const Shape from = c.shape(0);
  int64_t axis = c.integer("axis", 1);
  const auto rank = static_cast<int64_t>(from.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) {
    c.b.fail("axis {} of {} dimensions", axis, rank);
    return;
  }
  const Shape front(from.begin(), from.begin() + axis), back(from.begin() + axis, from.end());
  c.out(c.b.reshape(c.in(0), {graph::elements_of(front), graph::elements_of(back)}));
}

std::vector<int64_t> axes_of(Call& c) {
  return c.opset() >= 13 ? (c.has(1) ? c.known_integers(1) : std::vector<int64_t>())
                         : c.integers("axes");
}

void squeeze(Call& c) {
  const Shape from = c.shape(0);
  std::vector<int64_t> axes = axes_of(c);
  for (int64_t& axis : axes) axis = c.b.axis(c.in(0), axis);
  if (!c.b.ok()) return;
  Shape to;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (axes.empty() ? from[i] != 1 : !named) to.push_back(from[i]);
  }
  c.out(c.b.reshape(c.in(0), to));
}

void unsqueeze(Call& c) {
  const Shape from = c.shape(0);
  std::vector<int64_t> axes = axes_of(c);
  const auto rank = static_cast<int64_t>(from.size() + axes.size());
  for (int64_t& axis : axes) axis = c.b.axis_of(rank, axis);
  if (!c.b.ok()) return;
  std::sort(axes.begin(), axes.end());
  Shape to = from;
  for (const int64_t axis : axes) {
    if (axis > static_cast<int64_t>(to.size())) {
      c.b.fail("an axis is named twice");
      return;
    }
    to.insert(to.begin() + axis, 1);
  }
  c.out(c.b.reshape(c.in(0), to));
}

void identity(Call& c) { c.out(c.item(0)); }

void dropout(Call& c) {
  const Value x = c.in(0);
  bool trains = false;
  if (c.opset() >= 12 && c.has(2)) {
    trains = c.known_number(2) != 0;
    if (trains && c.has(1) && c.known_number(1) == 0) trains = false;
  } else if (c.opset() < 7) {
    trains = c.integer("is_test", 0) == 0;
  }
  if (trains) {
    c.refuse(graph::RefusalClass::kRandom,
             "it drops random elements, as in training; export the model for inference");
  }
  c.out(x);
  if (c.wants(1)) c.out(c.b.expand(c.b.scalar(Type::kBool, 1), c.b.shape(x)));
}

void range(Call& c) {
  const double start = c.known_number(0), limit = c.known_number(1), step = c.known_number(2);
  if (!c.b.ok()) return;
  const double wanted = std::ceil((limit - start) / step);
  if (!(wanted <= 1 << 24)) {
    c.b.fail("a range of {} elements", wanted);
    return;
  }
  const auto count = static_cast<int64_t>(std::max(0.0, wanted));
  Tensor tensor = Tensor::zeros(c.b.type(c.in(0)), {count});
  for (int64_t i = 0; i < count; ++i) {
    tensor.set(static_cast<size_t>(i), start + static_cast<double>(i) * step);
  }
  c.out(c.b.constant(std::move(tensor)));
}

void eye_like(Call& c) {
  const Shape shape = c.shape(0);
  const auto type = c.has_attribute("dtype") ? c.type("dtype") : c.b.type(c.in(0));
  if (shape.size() != 2 || !type) {
    c.b.fail("it needs a matrix, found {}", graph::shape_text(shape));
    return;
  }
  const Value rows = c.b.counting(Type::kI64, shape, 0);
  const Value columns = c.b.counting(Type::kI64, shape, 1);
  const Value shifted = c.b.map(Function::kAdd, rows, static_cast<double>(c.integer("k", 0)));
  c.out(c.b.cast(c.b.map(Function::kEqual, shifted, columns), *type));
}

constexpr Operator kShapeOperators[] = {
    {"Constant", constant}, {"ConstantOfShape", constant_of_shape},
    {"Dropout", dropout},   {"EyeLike", eye_like},
    {"Flatten", flatten},   {"Identity", identity},
    {"Range", range},       {"Reshape", reshape},
    {"Shape", shape},       {"Size", size},
    {"Squeeze", squeeze},   {"Unsqueeze", unsqueeze},
};

}  // namespace

std::span<const Operator> shape_operators() { return kShapeOperators; }

}  // namespace neuron::onnx
