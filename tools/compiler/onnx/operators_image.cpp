// SPDX-License-Identifier: Apache-2.0
// Images sampled at places that are data, and determinants.
#include <algorithm>
#include <cmath>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

// An image as rows: one for each place of each image of the batch, with all channels.
struct Table {
  Value rows = graph::kNone;
  int64_t batch = 1, channels = 1, height = 1, width = 1;
};

Table table_of(Call& c, Value x) {
  const Shape shape = c.b.shape(x);
  Table table;
  if (shape.size() != 4 || !graph::is_real(c.b.type(x))) {
    c.b.fail("an image of {} {}; [batch, channels, height, width] of real numbers is supported",
             graph::type_name(c.b.type(x)), graph::shape_text(shape));
    return table;
  }
  table.batch = shape[0];
  table.channels = shape[1];
  table.height = shape[2];
  table.width = shape[3];
  table.rows =
      c.b.reshape(c.b.transpose(x, {0, 2, 3, 1}), {shape[0] * shape[2] * shape[3], shape[1]});
  return table;
}

Value number(Call& c, Function function, Value x, double value) {
  return c.b.map(function, x, value);
}

Value inside(Call& c, Value place, double most) {
  const Value below = number(c, Function::kLessOrEqual, place, most);
  return c.b.map(Function::kAnd, number(c, Function::kGreaterOrEqual, place, 0), below);
}

// The rows at whole y and x (real numbers) of image `first` / (height * width); where either lies
// outside, zeros. [places, channels]
Value rows_at(Call& c, const Table& t, Value first, Value y, Value x) {
  const Value across = inside(c, x, static_cast<double>(t.width - 1));
  const Value valid =
      c.b.map(Function::kAnd, inside(c, y, static_cast<double>(t.height - 1)), across);
  const Value place = c.b.add(number(c, Function::kMultiply, y, static_cast<double>(t.width)), x);
  // Cast before the image's first row is added: real numbers are exact to 2^24 only.
  const Value bounded = c.b.select(valid, place, c.b.scalar(c.b.type(place), 0));
  const Value numbers = c.b.add(c.b.cast(bounded, Type::kI64), first);
  const Value none = c.b.scalar(Type::kI64, -1);
  return c.b.gather(t.rows, c.b.select(valid, numbers, none));
}

Value clamped(Call& c, Value x, double least, double most) {
  return number(c, Function::kMinimum, number(c, Function::kMaximum, x, least), most);
}

// Turned back at the ends as often as it takes.
Value reflected(Call& c, Value x, double least, double most) {
  const double range = most - least;
  if (range <= 0) return number(c, Function::kMultiply, x, 0);
  const Value away = c.b.map(Function::kAbsolute, number(c, Function::kSubtract, x, least));
  const Value rest = number(c, Function::kRemainder, away, 2 * range);
  const Value back = c.b.subtract(c.b.scalar(c.b.type(x), 2 * range), rest);
  const Value turned = c.b.map(Function::kMinimum, rest, back);
  return number(c, Function::kAdd, turned, least);
}

struct Sampling {
  std::string mode, padding;
  bool corners = false;

  double least() const { return corners ? 0 : -0.5; }
  double most(int64_t size) const { return static_cast<double>(size) - (corners ? 1 : 0.5); }
};

Value padded(Call& c, const Sampling& s, Value place, int64_t size) {
  if (s.padding == "border") return clamped(c, place, 0, static_cast<double>(size - 1));
  if (s.padding == "reflection") return reflected(c, place, s.least(), s.most(size));
  return place;
}

// From -1..1 to places.
Value place_of(Call& c, const Sampling& s, Value grid, int64_t size) {
  const auto count = static_cast<double>(size);
  const double factor = s.corners ? (count - 1) / 2 : count / 2;
  const double offset = s.corners ? factor : factor - 0.5;
  return number(c, Function::kAdd, number(c, Function::kMultiply, grid, factor), offset);
}

// The weights of the neighbours from `first` on.
struct Taps {
  Value first = graph::kNone;
  std::vector<Value> weights;
};

Taps taps_of(Call& c, const Sampling& s, Value place) {
  Taps taps;
  const Type type = c.b.type(place);
  if (s.mode == "nearest") return {c.b.map(Function::kRound, place), {c.b.scalar(type, 1)}};
  const Value floor = c.b.map(Function::kFloor, place);
  const Value rest = c.b.subtract(place, floor);
  const Value other = c.b.subtract(c.b.scalar(type, 1), rest);
  if (s.mode == "linear") return {floor, {other, rest}};
  constexpr double kA = -0.75;
  const auto polynomial = [&](Value x, double three, double two, double one, double zero) {
    Value sum = number(c, Function::kAdd, number(c, Function::kMultiply, x, three), two);
    sum = number(c, Function::kAdd, c.b.multiply(sum, x), one);
    return number(c, Function::kAdd, c.b.multiply(sum, x), zero);
  };
  const auto far = [&](Value x) {
    return polynomial(number(c, Function::kAdd, x, 1), kA, -5 * kA, 8 * kA, -4 * kA);
  };
  const auto near = [&](Value x) { return polynomial(x, kA + 2, -(kA + 3), 0, 1); };
  return {number(c, Function::kSubtract, floor, 1),
          {far(rest), near(rest), near(other), far(other)}};
}

void grid_sample(Call& c) {
  const Table table = table_of(c, c.in(0));
  const Value grid = c.in(1);
  const Shape shape = c.b.shape(grid);
  if (!c.b.ok()) return;
  if (shape.size() != 4 || shape[3] != 2 || shape[0] != table.batch) {
    c.b.fail("a grid of {}", graph::shape_text(shape));
    return;
  }
  Sampling s{c.text("mode", "linear"), c.text("padding_mode", "zeros"),
             c.integer("align_corners", 0) != 0};
  if (s.mode == "bilinear") s.mode = "linear";
  if (s.mode == "bicubic") s.mode = "cubic";
  const bool known = (s.mode == "nearest" || s.mode == "linear" || s.mode == "cubic") &&
                     (s.padding == "zeros" || s.padding == "border" || s.padding == "reflection");
  if (!known) {
    c.b.fail("the mode \"{}\" with the padding \"{}\"", base::escaped(s.mode),
             base::escaped(s.padding));
    return;
  }
  const int64_t places = shape[1] * shape[2], count = shape[0] * places;
  const Value real = c.b.reshape(c.b.cast(grid, c.b.type(table.rows)), {count, 2});
  const auto part = [&](int64_t i, int64_t size) {
    Value place = place_of(c, s, c.b.reshape(c.b.slice_axis(real, 1, {i, 1, 1}), {count}), size);
    if (s.mode == "nearest") place = c.b.map(Function::kRound, place);
    return padded(c, s, place, size);
  };
  const Taps across = taps_of(c, s, part(0, table.width));
  const Taps down = taps_of(c, s, part(1, table.height));
  const Value first =
      c.b.reshape(c.b.map(Function::kMultiply, c.b.counting(Type::kI64, {shape[0], places}, 0),
                          static_cast<double>(table.height * table.width)),
                  {count});
  Value sum = graph::kNone;
  for (size_t i = 0; i < down.weights.size(); ++i) {
    const Value y =
        padded(c, s, number(c, Function::kAdd, down.first, static_cast<double>(i)), table.height);
    for (size_t j = 0; j < across.weights.size(); ++j) {
      const Value x = padded(c, s, number(c, Function::kAdd, across.first, static_cast<double>(j)),
                             table.width);
      const Value weight = c.b.multiply(down.weights[i], across.weights[j]);
      const Value whole_x = c.b.map(Function::kRound, x);
      Value value = rows_at(c, table, first, c.b.map(Function::kRound, y), whole_x);
      const Shape column = {graph::elements_of(c.b.shape(weight)), 1};
      value = c.b.multiply(value, c.b.reshape(weight, column));
      sum = sum == graph::kNone ? value : c.b.add(sum, value);
    }
  }
  c.out(c.b.transpose(c.b.reshape(sum, {shape[0], shape[1], shape[2], table.channels}),
                      {0, 3, 1, 2}));
}

struct Region {
  double top, left, height, width;
  int64_t batch;
};

// Constant places and weights of the samples of one dimension of a region.
struct Samples {
  std::vector<int64_t> low, high;  // -1: outside
  std::vector<double> low_weight, high_weight;
};

Samples samples_of(double first, double length, int64_t bins, int64_t per_bin, int64_t size) {
  Samples s;
  const double bin = length / static_cast<double>(bins);
  for (int64_t i = 0; i < bins * per_bin; ++i) {
    double place = first + static_cast<double>(i / per_bin) * bin +
                   (static_cast<double>(i % per_bin) + 0.5) * bin / static_cast<double>(per_bin);
    if (place < -1 || place > static_cast<double>(size)) {
      s.low.push_back(-1);
      s.high.push_back(-1);
      s.low_weight.push_back(0);
      s.high_weight.push_back(0);
      continue;
    }
    place = std::max(0.0, place);
    auto low = static_cast<int64_t>(place);
    int64_t high = low + 1;
    if (low >= size - 1) {
      low = high = size - 1;
      place = static_cast<double>(low);
    }
    s.low.push_back(low);
    s.high.push_back(high);
    s.high_weight.push_back(place - static_cast<double>(low));
    s.low_weight.push_back(1 - s.high_weight.back());
  }
  return s;
}

// Bins of one region; [channels, rows, columns]
Value aligned_region(Call& c, Value image, const Region& r, int64_t rows, int64_t columns) {
  const Shape shape = c.b.shape(image);  // [channels, height, width]
  const int64_t ratio = c.integer("sampling_ratio", 0);
  const auto per_bin = [&](double length, int64_t bins) {
    if (ratio > 0) return std::min<int64_t>(ratio, 4097);
    return std::clamp<int64_t>(
        graph::truncated(Type::kI64, std::ceil(length / static_cast<double>(bins))), 1, 4097);
  };
  const int64_t down = per_bin(r.height, rows), across = per_bin(r.width, columns);
  const bool finite = std::isfinite(r.top + r.left + r.height + r.width);
  if (!finite || down * rows > 4096 || across * columns > 4096) {
    return c.b.fail("a region without an end, or of over 4096 samples");
  }
  const Samples y = samples_of(r.top, r.height, rows, down, shape[1]);
  const Samples x = samples_of(r.left, r.width, columns, across, shape[2]);
  const bool largest = c.text("mode", "avg") == "max";
  Value result = graph::kNone;
  for (int corner = 0; corner < 4; ++corner) {
    const bool lower = corner / 2 != 0, right = corner % 2 != 0;
    const Value picked =
        c.b.pick(c.b.pick(image, 1, lower ? y.high : y.low), 2, right ? x.high : x.low);
    const std::vector<double>& wy = lower ? y.high_weight : y.low_weight;
    const std::vector<double>& wx = right ? x.high_weight : x.low_weight;
    Tensor weights = Tensor::zeros(c.b.type(image), {rows * down, columns * across});
    for (size_t i = 0; i < wy.size(); ++i) {
      for (size_t j = 0; j < wx.size(); ++j) weights.set(i * wx.size() + j, wy[i] * wx[j]);
    }
    const Value part = c.b.multiply(picked, c.b.constant(std::move(weights)));
    result = result == graph::kNone
                 ? part
                 : c.b.map(largest ? Function::kMaximum : Function::kAdd, result, part);
  }
  result = c.b.reshape(result, {shape[0], rows, down, columns, across});
  if (largest) return c.b.reduce(Function::kMaximum, result, {2, 4}, false);
  return c.b.map(Function::kDivide, c.b.reduce(Function::kAdd, result, {2, 4}, false),
                 static_cast<double>(down * across));
}

// The places of samples depend on the regions, so these must be known.
void region_align(Call& c) {
  const Value x = c.in(0);
  const Tensor *regions = c.known(1), *batches = c.known(2);
  const Shape shape = c.b.shape(x);
  if (regions == nullptr || batches == nullptr || !c.b.ok()) return;
  const int64_t count = batches->elements();
  if (shape.size() != 4 || regions->elements() != 4 * count || count < 1 ||
      !graph::is_real(c.b.type(x))) {
    c.b.fail("{} regions of {} {}", count, graph::type_name(c.b.type(x)), graph::shape_text(shape));
    return;
  }
  const double scale = c.real("spatial_scale", 1);
  const int64_t rows = c.integer("output_height", 1), columns = c.integer("output_width", 1);
  const bool half =
      c.opset() >= 16 && c.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const double offset = half ? 0.5 : 0;
  if (rows < 1 || columns < 1 || rows > 4096 || columns > 4096) {
    c.b.fail("{} x {} bins", rows, columns);
  }
  std::vector<Value> results;
  for (int64_t i = 0; i < count && c.b.ok(); ++i) {
    const auto edge = [&](int64_t number) {
      return regions->real(at(4 * i + number)) * scale - offset;
    };
    Region r{edge(1), edge(0), edge(3) - edge(1), edge(2) - edge(0), batches->integer(at(i))};
    if (!half) {
      r.height = std::max(r.height, 1.0);
      r.width = std::max(r.width, 1.0);
    }
    const Value image =
        c.b.reshape(c.b.slice_axis(x, 0, {r.batch, 1, 1}), {shape[1], shape[2], shape[3]});
    if (!c.b.ok()) return;
    results.push_back(
        c.b.reshape(aligned_region(c, image, r, rows, columns), {1, shape[1], rows, columns}));
  }
  c.out(c.b.concat(results, 0));
}

// Of matrices [count, n, n], by the first row and its minors.
Value determinant_of(Call& c, Value x, int64_t count, int64_t n) {
  if (n == 1) return c.b.reshape(x, {count});
  Value sum = graph::kNone;
  for (int64_t j = 0; j < n; ++j) {
    std::vector<int64_t> others;
    for (int64_t k = 0; k < n; ++k) {
      if (k != j) others.push_back(k);
    }
    const Value below = c.b.slice_axis(x, 1, {1, n - 1, 1});
    const Value minor = determinant_of(c, c.b.pick(below, 2, others), count, n - 1);
    const Value first = c.b.slice_axis(c.b.slice_axis(x, 1, {0, 1, 1}), 2, {j, 1, 1});
    const Value term = c.b.multiply(c.b.reshape(first, {count}), minor);
    sum = j == 0 ? term : c.b.map(j % 2 == 0 ? Function::kAdd : Function::kSubtract, sum, term);
  }
  return sum;
}

void determinant(Call& c) {
  const Value x = c.in(0);
  const Shape shape = c.b.shape(x);
  constexpr int64_t kMost = 5;
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2] || shape.back() < 1 ||
      shape.back() > kMost) {
    c.b.fail("the determinant of {}; square matrices of up to {} rows are supported",
             graph::shape_text(shape), kMost);
    return;
  }
  const Shape batch(shape.begin(), shape.end() - 2);
  const int64_t count = graph::elements_of(batch), n = shape.back();
  c.out(c.b.reshape(determinant_of(c, c.b.reshape(x, {count, n, n}), count, n), batch));
}

constexpr Operator kImageOperators[] = {
    {"Det", determinant}, {"GridSample", grid_sample}, {"RoiAlign", region_align}};

}  // namespace

std::span<const Operator> image_operators() { return kImageOperators; }

}  // namespace neuron::onnx
