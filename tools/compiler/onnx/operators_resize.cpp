// SPDX-License-Identifier: Apache-2.0
// Interpolation. Each axis alone is a product with a matrix of weights, which is a constant: row i
// has the weights of the elements that element i of the result is made of.
#include <algorithm>
#include <cmath>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

struct Axis {
  int64_t axis = 0, from = 1, to = 1;
  double scale = 1, start = 0, end = 1;  // of the region of interest
};

struct Method {
  std::string mode, coordinates, rounding;
  double cubic = -0.75;
  bool excludes_outside = false, antialiases = false;
};

// Where element i of the result lies in x.
double source_of(const Method& method, const Axis& a, int64_t i) {
  const auto place = static_cast<double>(i), from = static_cast<double>(a.from);
  const double length = static_cast<double>(a.from) * a.scale;
  const std::string& how = method.coordinates;
  if (how == "asymmetric") return place / a.scale;
  if (how == "align_corners") {
    return length <= 1 ? 0 : place * (from - 1) / (length - 1);
  }
  if (how == "pytorch_half_pixel" && a.to <= 1) return -0.5;
  if (how == "tf_half_pixel_for_nn") return (place + 0.5) / a.scale;
  if (how == "tf_crop_and_resize") {
    if (a.to <= 1) return 0.5 * (a.start + a.end) * (from - 1);
    return a.start * (from - 1) +
           place * (a.end - a.start) * (from - 1) / (static_cast<double>(a.to) - 1);
  }
  if (how == "half_pixel_symmetric") {
    // What rounding the size cuts off is cut on both sides.
    const double adjusted = static_cast<double>(a.to) / length;
    const double offset = from / 2 * (1 - adjusted);
    return offset + (place + 0.5) / a.scale - 0.5;
  }
  return (place + 0.5) / a.scale - 0.5;
}

int64_t nearest(const Method& method, double place) {
  // A hair from the middle is the middle.
  constexpr double kHair = 1e-9;
  const double floor = std::floor(place + kHair), rest = place - floor;
  if (method.rounding == "floor") return static_cast<int64_t>(floor);
  if (method.rounding == "ceil") return static_cast<int64_t>(std::ceil(place - kHair));
  const bool half = std::fabs(rest - 0.5) < kHair;
  const bool up = half ? method.rounding == "round_prefer_ceil" : rest > 0.5;
  return static_cast<int64_t>(floor) + (up ? 1 : 0);
}

double weight(const Method& method, double distance) {
  const double x = std::fabs(distance);
  if (method.mode == "linear") return std::max(0.0, 1 - x);
  const double a = method.cubic;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The weights of all elements of x for element i of the result.
std::vector<double> weights_of(const Method& method, const Axis& a, int64_t i) {
  std::vector<double> row(at(a.from), 0);
  const double place = source_of(method, a, i);
  if (method.mode == "nearest") {
    row[at(std::clamp<int64_t>(nearest(method, place), 0, a.from - 1))] = 1;
    return row;
  }
  const double spread = method.antialiases ? std::max(1.0, 1 / a.scale) : 1;
  const double reach = (method.mode == "linear" ? 1 : 2) * spread;
  double sum = 0;
  const auto first = static_cast<int64_t>(std::floor(place - reach)),
             last = static_cast<int64_t>(std::ceil(place + reach));
  for (int64_t k = first; k <= last; ++k) {
    const double w = weight(method, (static_cast<double>(k) - place) / spread);
    const bool outside = k < 0 || k >= a.from;
    if (outside && (method.excludes_outside || method.antialiases)) continue;
    row[at(std::clamp<int64_t>(k, 0, a.from - 1))] += w;
    sum += w;
  }
  for (double& w : row) w /= sum;
  return row;
}

Value resized(Call& c, Value x, const Method& method, const Axis& a) {
  if (method.mode == "nearest") {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < a.to; ++i) {
      places.push_back(
          std::clamp<int64_t>(nearest(method, source_of(method, a, i)), 0, a.from - 1));
    }
    return c.b.pick(x, a.axis, places);
  }
  if (a.from > 1 << 16 || a.to > 1 << 16 || a.from * a.to > 1 << 20) {
    return c.b.fail("{} elements interpolated to {}", a.from, a.to);
  }
  // What rounding gives a whole number is not said.
  if (!graph::is_real(c.b.type(x))) {
    return c.b.fail("interpolation of {}; cast to f32 before, and back as you want it rounded",
                    graph::type_name(c.b.type(x)));
  }
  Tensor matrix = Tensor::zeros(c.b.type(x), {a.to, a.from});
  for (int64_t i = 0; i < a.to; ++i) {
    const std::vector<double> row = weights_of(method, a, i);
    for (int64_t k = 0; k < a.from; ++k) matrix.set(at(i * a.from + k), row[at(k)]);
  }
  // [before, axis, behind]
  const Shape shape = c.b.shape(x);
  const Shape front(shape.begin(), shape.begin() + a.axis),
      back(shape.begin() + a.axis + 1, shape.end());
  Shape result = shape;
  result[at(a.axis)] = a.to;
  const Value rows = c.b.reshape(x, {graph::elements_of(front), a.from, graph::elements_of(back)});
  const Value left = c.b.expand(c.b.reshape(c.b.constant(std::move(matrix)), {1, a.to, a.from}),
                                {graph::elements_of(front), a.to, a.from});
  return c.b.reshape(c.b.batched_product(left, rows, false), result);
}

// Where the result lies outside of x, with tf_crop_and_resize.
Value without_outside(Call& c, Value y, const Method& method, const std::vector<Axis>& axes) {
  if (method.coordinates != "tf_crop_and_resize") return y;
  Value outside = c.b.scalar(Type::kBool, 0);
  for (const Axis& a : axes) {
    Shape shape(at(c.b.rank(y)), 1);
    shape[at(a.axis)] = a.to;
    Tensor marks = Tensor::zeros(Type::kBool, shape);
    for (int64_t i = 0; i < a.to; ++i) {
      const double place = source_of(method, a, i);
      marks.integers[at(i)] = place < 0 || place > static_cast<double>(a.from - 1);
    }
    outside = c.b.map(Function::kOr, outside, c.b.constant(std::move(marks)));
  }
  const double value = c.real("extrapolation_value", 0);
  return c.b.select(outside, c.b.scalar(c.b.type(y), value), y);
}

// The axes that change, from scales or sizes.
bool read_axes(Call& c, const Shape& shape, const Tensor* scales, const std::vector<int64_t>& sizes,
               const std::vector<int64_t>& numbers, std::vector<Axis>& axes) {
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (size_t i = 0; i < numbers.size() && scales == nullptr && policy != "stretch"; ++i) {
    const double scale = static_cast<double>(sizes[i]) / static_cast<double>(shape[at(numbers[i])]);
    const bool first = i == 0, larger = policy == "not_smaller";
    common = first ? scale : larger ? std::max(common, scale) : std::min(common, scale);
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    Axis a;
    a.axis = numbers[i];
    a.from = shape[at(a.axis)];
    const auto from = static_cast<double>(a.from);
    if (scales != nullptr) {
      a.scale = scales->real(i);
      a.to = graph::truncated(Type::kI64, std::floor(from * a.scale + 1e-6));
    } else if (policy != "stretch") {
      a.scale = common;
      a.to = graph::truncated(Type::kI64, std::floor(from * common + 0.5));
    } else {
      a.to = sizes[i];
      a.scale = static_cast<double>(a.to) / from;
    }
    if (!(a.scale > 1e-6 && a.scale < 1e6) || a.to < 1 || a.to > 1 << 20) {
      c.b.fail("a dimension of {} becomes {}", a.from, a.to);
      return false;
    }
    axes.push_back(a);
  }
  return true;
}

template <class List>
bool is_one_of(const std::string& name, const List& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Whether all of its names are known.
bool check(Call& c, const Method& method) {
  constexpr const char* kModes[] = {"nearest", "linear", "cubic"};
  constexpr const char* kCoordinates[] = {
      "half_pixel",           "pytorch_half_pixel", "align_corners",       "asymmetric",
      "tf_half_pixel_for_nn", "tf_crop_and_resize", "half_pixel_symmetric"};
  constexpr const char* kRoundings[] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
  if (is_one_of(method.mode, kModes) && is_one_of(method.coordinates, kCoordinates) &&
      is_one_of(method.rounding, kRoundings)) {
    return true;
  }
  c.b.fail("the mode \"{}\" with the coordinates \"{}\" and the rounding \"{}\"",
           base::escaped(method.mode), base::escaped(method.coordinates),
           base::escaped(method.rounding));
  return false;
}

void resize_with(Call& c, const Method& method, const Tensor* scales,
                 const std::vector<int64_t>& sizes, const Tensor* region) {
  if (!check(c, method)) return;
  Value x = c.in(0);
  const Shape shape = c.b.shape(x);
  std::vector<int64_t> numbers = c.integers("axes");
  if (!c.has_attribute("axes")) {
    for (int64_t i = 0; i < c.b.rank(x); ++i) numbers.push_back(i);
  }
  for (int64_t& number : numbers) number = c.b.axis(x, number);
  const size_t given = scales != nullptr ? at(scales->elements()) : sizes.size();
  if (given != numbers.size() || (region != nullptr && at(region->elements()) != 2 * given)) {
    c.b.fail("{} scales or sizes of {} dimensions", given, numbers.size());
  }
  std::vector<Axis> axes;
  if (!c.b.ok() || !read_axes(c, shape, scales, sizes, numbers, axes)) return;
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis& a = axes[i];
    if (region != nullptr) {
      a.start = region->real(i);
      a.end = region->real(given + i);
      if (!(std::fabs(a.start) < 1e6 && std::fabs(a.end) < 1e6)) {
        c.b.fail("a region from {} to {}", a.start, a.end);
        return;
      }
    }
    const bool crops = method.coordinates == "tf_crop_and_resize";
    if (a.from == a.to && a.scale == 1 && (!crops || (a.start == 0 && a.end == 1))) continue;
    x = resized(c, x, method, a);
    if (!c.b.ok()) return;
  }
  c.out(without_outside(c, x, method, axes));
}

void resize(Call& c) {
  Method method;
  method.mode = c.text("mode", "nearest");
  method.coordinates =
      c.opset() < 11 ? "asymmetric" : c.text("coordinate_transformation_mode", "half_pixel");
  method.rounding = c.opset() < 11 ? "floor" : c.text("nearest_mode", "round_prefer_floor");
  method.cubic = c.real("cubic_coeff_a", -0.75);
  method.excludes_outside = c.integer("exclude_outside", 0) != 0;
  method.antialiases = c.integer("antialias", 0) != 0;
  if (c.opset() < 11) return resize_with(c, method, c.known(1), {}, nullptr);
  const Tensor* region = nullptr;
  if (method.coordinates == "tf_crop_and_resize" && c.has(1)) region = c.known(1);
  if (c.has(3)) return resize_with(c, method, nullptr, c.known_integers(3), region);
  if (const Tensor* scales = c.known(2)) resize_with(c, method, scales, {}, region);
}

void upsample(Call& c) {
  Method method;
  method.mode = c.text("mode", "nearest") == "nearest" ? "nearest" : "linear";
  method.coordinates = "asymmetric";
  method.rounding = "floor";
  if (c.opset() >= 9) return resize_with(c, method, c.known(1), {}, nullptr);
  const std::vector<double> list = c.reals("scales");
  const Tensor scales = Tensor::of_reals(Type::kF32, {static_cast<int64_t>(list.size())}, list);
  resize_with(c, method, &scales, {}, nullptr);
}

constexpr Operator kResizeOperators[] = {{"Resize", resize}, {"Upsample", upsample}};

}  // namespace

std::span<const Operator> resize_operators() { return kResizeOperators; }

}  // namespace neuron::onnx
