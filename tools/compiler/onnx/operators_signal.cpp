// SPDX-License-Identifier: Apache-2.0
// Signals: windows, Fourier transforms as products with constant matrices, scales of pitch.
#include <algorithm>
#include <cmath>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

constexpr double kTurn = 6.283185307179586;
constexpr int64_t kMostLength = 1 << 14;

// first - second * cos + third * cos of twice the angle
void cosine_window(Call& c, double first, double second, double third) {
  const auto count = c.known_integer(0);
  const auto type = c.has_attribute("output_datatype") ? c.type("output_datatype") : Type::kF32;
  if (!type || !c.b.ok()) return;
  if (count < 1 || count > 1 << 22) {
    c.b.fail("a window of {} elements", count);
    return;
  }
  const int64_t period = c.integer("periodic", 1) != 0 ? count : std::max<int64_t>(1, count - 1);
  Tensor window = Tensor::zeros(*type, {count});
  for (int64_t i = 0; i < count; ++i) {
    const double angle = kTurn * static_cast<double>(i) / static_cast<double>(period);
    window.set(at(i), first - second * std::cos(angle) + third * std::cos(2 * angle));
  }
  c.out(c.b.constant(std::move(window)));
}

void blackman_window(Call& c) { cosine_window(c, 0.42, 0.5, 0.08); }
void hamming_window(Call& c) { cosine_window(c, 25.0 / 46, 21.0 / 46, 0); }
void hann_window(Call& c) { cosine_window(c, 0.5, 0.5, 0); }

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

void mel_weight_matrix(Call& c) {
  const auto bins = c.known_integer(0);
  const auto length = c.known_integer(1);
  const double rate = c.known_number(2);
  const double low = mel_of(c.known_number(3)), high = mel_of(c.known_number(4));
  const auto type = c.has_attribute("output_datatype") ? c.type("output_datatype") : Type::kF32;
  if (!type || !c.b.ok()) return;
  if (bins < 1 || bins > kMostLength || length < 1 || length > 1 << 20 || !(rate >= 1)) {
    c.b.fail("{} bins of a transform of {} at {} Hz", bins, length, rate);
    return;
  }
  const int64_t rows = length / 2 + 1;
  if (!c.b.listable(rows * bins)) return;
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double mel = low + static_cast<double>(i) * (high - low) / static_cast<double>(bins + 2);
    const double hertz = 700 * (std::pow(10, mel / 2595) - 1);
    const double edge = std::floor(static_cast<double>(length + 1) * hertz / rate);
    edges.push_back(graph::truncated(Type::kI32, edge));
    if (edges.back() < 0 || edges.back() > rows) {
      c.b.fail("the edge at {} Hz lies outside of the transform", hertz);
      return;
    }
  }
  Tensor matrix = Tensor::zeros(*type, {rows, bins});
  const auto put = [&](int64_t row, int64_t bin, double value) {
    if (row < rows) matrix.set(at(row * bins + bin), value);
  };
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t first = edges[at(i)], middle = edges[at(i + 1)], last = edges[at(i + 2)];
    if (middle == first) put(middle, i, 1);
    for (int64_t j = first; j <= middle && middle != first; ++j) {
      put(j, i, static_cast<double>(j - first) / static_cast<double>(middle - first));
    }
    for (int64_t j = middle; j < last; ++j) {
      put(j, i, static_cast<double>(last - j) / static_cast<double>(last - middle));
    }
  }
  c.out(c.b.constant(std::move(matrix)));
}

struct Transform {
  int64_t length = 1, bins = 1;
  bool inverse = false;
};

// cos or sin of each pair of place and frequency, [length, bins].
Value waves(Call& c, const Transform& t, Type type, bool sine) {
  Tensor matrix = Tensor::zeros(type, {t.length, t.bins});
  for (int64_t i = 0; i < t.length; ++i) {
    for (int64_t k = 0; k < t.bins; ++k) {
      const double angle =
          kTurn * static_cast<double>(i * k % t.length) / static_cast<double>(t.length);
      matrix.set(at(i * t.bins + k), sine ? std::sin(angle) : std::cos(angle));
    }
  }
  return c.b.constant(std::move(matrix));
}

// The transform of the last dimension; `imaginary` may be absent. The result has one more
// dimension, of real and imaginary parts.
Value transformed(Call& c, const Transform& t, Value real, Value imaginary) {
  if (t.length < 1 || t.length > kMostLength || t.length * t.bins > 1 << 24) {
    return c.b.fail("a transform of {} elements", t.length);
  }
  const Type type = c.b.type(real);
  if (!graph::is_real(type)) {
    return c.b.fail("a transform of {}; cast it before", graph::type_name(type));
  }
  const Value cosines = waves(c, t, type, false), sines = waves(c, t, type, true);
  const double sign = t.inverse ? -1 : 1;
  Value x = c.b.product(real, cosines);
  Value y = c.b.map(Function::kMultiply, c.b.product(real, sines), -sign);
  if (imaginary >= 0) {
    x = c.b.add(x, c.b.map(Function::kMultiply, c.b.product(imaginary, sines), sign));
    y = c.b.add(y, c.b.product(imaginary, cosines));
  }
  Shape shape = c.b.shape(x);
  shape.push_back(1);
  Value both = c.b.concat({c.b.reshape(x, shape), c.b.reshape(y, shape)}, -1);
  if (t.inverse) both = c.b.map(Function::kDivide, both, static_cast<double>(t.length));
  return both;
}

// One of the two numbers of the last dimension, which goes; kNone if there is only one.
Value component(Call& c, Value x, int64_t number) {
  const int64_t last = c.b.rank(x) - 1;
  if (last < 1) return c.b.fail("a signal of {}", graph::shape_text(c.b.shape(x)));
  if (number >= c.b.size(x, last)) return graph::kNone;
  const Value part = c.b.slice_axis(x, last, {number, 1, 1});
  if (part < 0) return part;
  Shape shape = c.b.shape(part);
  shape.pop_back();
  return c.b.reshape(part, shape);
}

void discrete_fourier_transform(Call& c) {
  const Value x = c.in(0);
  int64_t axis = c.integer("axis", 1);
  if (c.opset() >= 20) axis = c.has(2) ? c.known_integer(2) : -2;
  axis = c.b.axis(x, axis);
  if (!c.b.ok() || axis + 1 >= c.b.rank(x)) {
    c.b.fail("axis {} of a signal of {}", axis, graph::shape_text(c.b.shape(x)));
    return;
  }
  Transform t;
  t.length = c.has(1) ? c.known_integer(1) : c.b.size(x, axis);
  if (t.length < 1 || t.length > kMostLength) {
    c.b.fail("a transform of {} elements; at most {} are supported", t.length, kMostLength);
    return;
  }
  t.inverse = c.integer("inverse", 0) != 0;
  t.bins = c.integer("onesided", 0) != 0 ? t.length / 2 + 1 : t.length;
  std::vector<int64_t> order, back;
  const int64_t rank = c.b.rank(x) - 1;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  // [others, frequencies, parts] back to the places of the input.
  for (int64_t i = 0; i < rank; ++i) {
    back.push_back(i < axis ? i : i == axis ? rank - 1 : i - 1);
  }
  back.push_back(rank);
  const auto prepared = [&](Value part) {
    if (part < 0) return part;
    const Value turned = c.b.transpose(part, order);
    if (turned < 0) return turned;
    std::vector<int64_t> before(at(rank), 0), after = before;
    after.back() = t.length - c.b.size(turned, rank - 1);
    return c.b.pad(turned, before, after, 0);
  };
  const Value second = prepared(component(c, x, 1));
  const Value both = transformed(c, t, prepared(component(c, x, 0)), second);
  c.out(c.b.transpose(both, back));
}

void short_time_fourier_transform(Call& c) {
  const Value x = c.in(0);
  const auto step = c.known_integer(1);
  Transform t;
  t.length = c.has(3) ? c.known_integer(3) : c.has(2) ? graph::elements_of(c.shape(2)) : 0;
  const Shape shape = c.b.shape(x);
  if (!c.b.ok()) return;
  if (shape.size() < 2 || step < 1 || t.length < 1 || t.length > shape[1]) {
    c.b.fail("frames of {}, {} apart, of a signal of {}", t.length, step, graph::shape_text(shape));
    return;
  }
  t.bins = c.integer("onesided", 1) != 0 ? t.length / 2 + 1 : t.length;
  const int64_t frames = (shape[1] - t.length) / step + 1;
  const auto framed = [&](Value part) {
    if (part < 0) return part;
    const Value rows = c.b.windows(part, 1, {{t.length, 1, frames, step, 0}}, 0);
    return c.has(2) ? c.b.multiply(rows, c.in(2)) : rows;
  };
  const bool has_parts = shape.size() == 3;
  const Value real = has_parts ? component(c, x, 0) : x;
  const Value imaginary = has_parts ? component(c, x, 1) : graph::kNone;
  const Value second = framed(imaginary);
  c.out(transformed(c, t, framed(real), second));
}

constexpr Operator kSignalOperators[] = {
    {"BlackmanWindow", blackman_window},    {"DFT", discrete_fourier_transform},
    {"HammingWindow", hamming_window},      {"HannWindow", hann_window},
    {"MelWeightMatrix", mel_weight_matrix}, {"STFT", short_time_fourier_transform},
};

}  // namespace

std::span<const Operator> signal_operators() { return kSignalOperators; }

}  // namespace neuron::onnx
