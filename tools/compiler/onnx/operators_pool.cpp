// SPDX-License-Identifier: Apache-2.0
// Pools: windows of each channel are folded to one element.
#include <cmath>
#include <limits>

#include "tools/compiler/onnx/operators.h"
#include "tools/compiler/onnx/spatial.h"

namespace neuron::onnx {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Pool {
  Value x;
  Shape image, counts, result;
  Spatial spatial;
  int64_t channels = 1;  // of all of the batch
  bool ok = false;
};

Pool pool_of(Call& c) {
  Pool pool;
  pool.x = c.in(0);
  pool.image = image_of(c, pool.x);
  if (!c.b.ok() || !read_spatial(c, pool.image, {}, pool.spatial)) return pool;
  const Shape shape = c.b.shape(pool.x);
  pool.counts = pool.spatial.counts(pool.image);
  pool.result = {shape[0], shape[1]};
  pool.channels = shape[0] * shape[1];
  pool.result.insert(pool.result.end(), pool.counts.begin(), pool.counts.end());
  pool.ok = true;
  return pool;
}

// [channels, offsets, windows] of an image of so many channels.
Value windows_of(Call& c, const Pool& pool, Value x, int64_t channels, double fill) {
  Shape split = {channels};
  split.insert(split.end(), pool.image.begin(), pool.image.end());
  const Value all =
      c.b.windows(c.b.reshape(x, split), 1, pool.spatial.windows(pool.image), fill, true);
  return c.b.reshape(
      all, {channels, graph::elements_of(pool.spatial.kernel), graph::elements_of(pool.counts)});
}

// The number of each element of the image, by rows or by columns.
Value places(Call& c, const Pool& pool, bool by_columns) {
  const int64_t count = graph::elements_of(pool.image);
  Value numbers = c.b.counting(Type::kI64, {count}, 0);
  if (!by_columns) return c.b.reshape(numbers, pool.image);
  const Shape reversed(pool.image.rbegin(), pool.image.rend());
  std::vector<int64_t> order;
  for (size_t i = pool.image.size(); i-- > 0;) order.push_back(static_cast<int64_t>(i));
  return c.b.transpose(c.b.reshape(numbers, reversed), order);
}

// Of whole numbers, as the device has them: in 32 bits.
double least_of(Type type) {
  const size_t bytes = std::min<size_t>(4, graph::type_bytes(type));
  return graph::is_unsigned(type) ? 0 : -std::ldexp(1.0, static_cast<int>(8 * bytes) - 1);
}

void max_pool(Call& c) {
  const Pool pool = pool_of(c);
  if (!pool.ok) return;
  const bool real = graph::is_real(c.b.type(pool.x));
  const double least = real ? -kInfinity : least_of(c.b.type(pool.x));
  const Value all = windows_of(c, pool, pool.x, pool.channels, least);
  const Value best = c.b.reduce(Function::kMaximum, all, {1}, true);
  c.out(c.b.reshape(best, pool.result));
  if (!c.wants(1)) return;
  const int64_t count = graph::elements_of(pool.image);
  const Value where = windows_of(c, pool, places(c, pool, c.integer("storage_order", 0) != 0), 1,
                                 static_cast<double>(count));
  const Value none = c.b.scalar(Type::kI64, static_cast<double>(count));
  Value hit = c.b.map(Function::kEqual, all, best);
  // NaN is the largest where there is one, and equal to nothing.
  if (real) hit = c.b.map(Function::kOr, hit, c.b.map(Function::kIsNan, all));
  Value found = c.b.select(hit, where, none);
  found = c.b.reduce(Function::kMinimum, found, {1}, false);
  const Value first = c.b.map(Function::kMultiply, c.b.counting(Type::kI64, {pool.channels, 1}, 0),
                              static_cast<double>(count));
  c.out(c.b.reshape(c.b.add(found, first), pool.result));
}

void average_pool(Call& c) {
  const Pool pool = pool_of(c);
  if (!pool.ok) return;
  const Value sum =
      c.b.reduce(Function::kAdd, windows_of(c, pool, pool.x, pool.channels, 0), {1}, false);
  // How many elements each window has, padding included or not.
  const bool padding = c.integer("count_include_pad", 0) != 0;
  Shape image = pool.image;
  for (size_t i = 0; padding && i < image.size(); ++i) {
    image[i] += pool.spatial.before[i] + pool.spatial.after[i];
  }
  Value ones = c.b.scalar(c.b.type(pool.x), 1);
  std::vector<Builder::Window> windows = pool.spatial.windows(pool.image);
  for (size_t i = 0; padding && i < windows.size(); ++i) windows[i].first = 0;
  ones = c.b.windows(c.b.expand(ones, image), 0, windows, 0, true);
  ones =
      c.b.reshape(ones, {graph::elements_of(pool.spatial.kernel), graph::elements_of(pool.counts)});
  c.out(c.b.reshape(c.b.divide(sum, c.b.reduce(Function::kAdd, ones, {0}, false)), pool.result));
}

// The p-th root of the sum of p-th powers.
Value power_sum(Call& c, Value x, const std::vector<int64_t>& axes, bool keep) {
  const double p = static_cast<double>(c.integer("p", 2));
  const Value powers = c.b.map(Function::kPower, c.b.map(Function::kAbsolute, x), p);
  return c.b.map(Function::kPower, c.b.reduce(Function::kAdd, powers, axes, keep), 1 / p);
}

void power_pool(Call& c) {
  const Pool pool = pool_of(c);
  if (!pool.ok) return;
  const Value all = windows_of(c, pool, pool.x, pool.channels, 0);
  c.out(c.b.reshape(power_sum(c, all, {1}, false), pool.result));
}

std::vector<int64_t> image_axes(Call& c) {
  std::vector<int64_t> axes;
  for (int64_t i = 2; i < c.b.rank(c.in(0)); ++i) axes.push_back(i);
  return axes;
}

void global_average_pool(Call& c) {
  const Value x = c.in(0);
  const auto count = static_cast<double>(graph::elements_of(image_of(c, x)));
  c.out(c.b.map(Function::kDivide, c.b.reduce(Function::kAdd, x, image_axes(c), true), count));
}

void global_max_pool(Call& c) {
  c.out(c.b.reduce(Function::kMaximum, c.in(0), image_axes(c), true));
}

void global_power_pool(Call& c) { c.out(power_sum(c, c.in(0), image_axes(c), true)); }

void max_unpool(Call& c) {
  const Value x = c.in(0), places = c.in(1);
  const Shape shape = c.b.shape(x), image = image_of(c, x);
  Spatial spatial;
  if (!c.b.ok() || !read_spatial(c, image, {}, spatial)) return;
  Shape inner = {shape[0], shape[1]};
  for (size_t i = 0; i < image.size(); ++i) {
    inner.push_back((image[i] - 1) * spatial.strides[i] + spatial.kernel[i] - spatial.before[i] -
                    spatial.after[i]);
    if (inner.back() < 1) {
      c.b.fail("a result of {}", graph::shape_text(inner));
      return;
    }
  }
  if (!c.b.allowed(inner)) return;
  const int64_t count = graph::elements_of(inner), given = graph::elements_of(shape);
  const Value empty = c.b.expand(c.b.scalar(c.b.type(x), 0), {count, 1});
  const Value rows = c.b.reshape(x, {given, 1});
  Value y = c.b.scatter(empty, c.b.reshape(places, {given}), rows, {});
  y = c.b.reshape(y, inner);
  if (!c.has(2)) return c.out(y);
  const Shape wanted = c.known_integers(2);
  if (!c.b.ok()) return;
  std::vector<int64_t> before(inner.size(), 0), after = before;
  if (wanted.size() != inner.size() || !c.b.allowed(wanted)) {
    c.b.fail("{} sizes of a result of {}", wanted.size(), graph::shape_text(inner));
    return;
  }
  for (size_t i = 0; i < inner.size(); ++i) after[i] = wanted[i] - inner[i];
  c.out(c.b.pad(y, before, after, 0));
}

constexpr Operator kPoolOperators[] = {
    {"AveragePool", average_pool},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalLpPool", global_power_pool},
    {"GlobalMaxPool", global_max_pool},
    {"LpPool", power_pool},
    {"MaxPool", max_pool},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const Operator> pool_operators() { return kPoolOperators; }

}  // namespace neuron::onnx
