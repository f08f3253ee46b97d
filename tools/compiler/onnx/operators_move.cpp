// SPDX-License-Identifier: Apache-2.0
// Operators whose results are elements of their inputs at other places.
#include <algorithm>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

void transpose(Call& c) {
  const Value x = c.in(0);
  std::vector<int64_t> reversed;
  for (int64_t i = c.b.rank(x); i-- > 0;) reversed.push_back(i);
  c.out(c.b.transpose(x, c.integers("perm", reversed)));
}

void expand(Call& c) {
  const Value x = c.in(0);
  Shape to = c.known_integers(1);
  const Shape from = c.b.shape(x);
  if (from.size() > to.size()) to.insert(to.begin(), from.size() - to.size(), 1);
  for (size_t i = 1; i <= from.size(); ++i) {
    int64_t& size = to[to.size() - i];
    if (size == 1) size = from[from.size() - i];
  }
  c.out(c.b.expand(x, to));
}

void tile(Call& c) {
  const Value x = c.in(0);
  const std::vector<int64_t> times = c.known_integers(1);
  const Shape from = c.b.shape(x);
  if (times.size() != from.size()) {
    c.b.fail("{} repeats of {} dimensions", times.size(), from.size());
    return;
  }
  Shape split, spread, to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (times[i] < 0 || times[i] > 1 << 30) {
      c.b.fail("{} repeats", times[i]);
      return;
    }
    split.insert(split.end(), {1, from[i]});
    spread.insert(spread.end(), {times[i], from[i]});
    to.push_back(times[i] * from[i]);
  }
  c.out(c.b.reshape(c.b.expand(c.b.reshape(x, split), spread), to));
}

void concat(Call& c) {
  std::vector<Value> values;
  for (size_t i = 0; i < c.count(); ++i) values.push_back(c.in(i));
  c.out(c.b.concat(values, c.integer("axis", 1)));
}

// The elements of one dimension, by the rules of Python.
graph::Slice slice_of(int64_t size, int64_t start, int64_t end, int64_t step) {
  const auto from_end = [&](int64_t place) { return place < 0 ? place + size : place; };
  if (step > 0) {
    start = std::clamp<int64_t>(from_end(start), 0, size);
    end = std::clamp<int64_t>(from_end(end), 0, size);
    return {start, end > start ? (end - start - 1) / step + 1 : 0, step};
  }
  start = std::clamp<int64_t>(from_end(start), -1, size - 1);
  end = std::clamp<int64_t>(from_end(end), -1, size - 1);
  return {start, start > end ? (start - end - 1) / -step + 1 : 0, step};
}

void slice(Call& c) {
  const Value x = c.in(0);
  const bool given = c.opset() >= 10;
  const std::vector<int64_t> starts = given ? c.known_integers(1) : c.integers("starts");
  const std::vector<int64_t> ends = given ? c.known_integers(2) : c.integers("ends");
  std::vector<int64_t> axes, steps;
  if (given ? c.has(3) : c.has_attribute("axes")) {
    axes = given ? c.known_integers(3) : c.integers("axes");
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (given && c.has(4)) steps = c.known_integers(4);
  steps.resize(axes.size(), 1);
  if (!c.b.ok()) return;
  if (starts.size() != axes.size() || ends.size() != axes.size()) {
    c.b.fail("{} starts and {} ends of {} axes", starts.size(), ends.size(), axes.size());
    return;
  }
  std::vector<graph::Slice> slices;
  for (const int64_t size : c.b.shape(x)) slices.push_back({0, size, 1});
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = c.b.axis(x, axes[i]);
    if (!c.b.ok()) return;
    constexpr int64_t kMost = int64_t{1} << 40;
    if (steps[i] == 0) {
      c.b.fail("a step of 0");
      return;
    }
    slices[at(axis)] =
        slice_of(c.b.size(x, axis), std::clamp(starts[i], -kMost, kMost),
                 std::clamp(ends[i], -kMost, kMost), std::clamp(steps[i], -kMost, kMost));
  }
  c.out(c.b.slice(x, slices));
}

void split(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.b.axis(x, c.integer("axis", 0));
  const int64_t size = c.b.size(x, axis);
  std::vector<int64_t> parts = c.opset() < 13
                                   ? c.integers("split")
                                   : (c.has(1) ? c.known_integers(1) : std::vector<int64_t>());
  if (!c.b.ok()) return;
  if (parts.empty()) {
    const auto named = static_cast<int64_t>(c.outputs());
    const int64_t count = c.integer("num_outputs", named);
    if (count < 1 || count > std::max<int64_t>(1, size)) {
      c.b.fail("{} parts of {} elements", count, size);
      return;
    }
    const int64_t each = (size + count - 1) / count;
    for (int64_t done = 0; done < size && parts.size() < c.outputs(); done += each) {
      parts.push_back(std::min(each, size - done));
    }
  }
  int64_t first = 0;
  for (const int64_t part : parts) {
    c.out(c.b.slice_axis(x, axis, {first, part, 1}));
    if (!c.b.ok()) return;
    first += part;
  }
  if (first != size) c.b.fail("parts of {} elements of a dimension of {}", first, size);
}

// Which element of `size` stands at `place`, which may lie outside.
int64_t padded_place(int64_t place, int64_t size, const std::string& mode) {
  if (mode == "edge") return std::clamp<int64_t>(place, 0, size - 1);
  if (mode == "wrap") return ((place % size) + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);
  const int64_t turned = ((place % period) + period) % period;
  return turned < size ? turned : period - turned;
}

void pad(Call& c) {
  Value x = c.in(0);
  const std::string mode = c.text("mode", "constant");
  const std::vector<int64_t> given =
      c.opset() < 11 ? c.integers(c.opset() < 2 ? "paddings" : "pads") : c.known_integers(1);
  double fill = c.opset() < 11 ? c.real("value", 0) : 0;
  if (c.opset() >= 11 && c.has(2)) {
    const Tensor* value = c.known(2);
    if (value != nullptr && value->elements() == 1) fill = value->real(0);
  }
  std::vector<int64_t> axes;
  if (c.has(3)) {
    axes = c.known_integers(3);
  } else {
    for (int64_t i = 0; i < c.b.rank(x); ++i) axes.push_back(i);
  }
  if (!c.b.ok()) return;
  const size_t count = axes.size();
  std::vector<int64_t> before(at(c.b.rank(x)), 0), after = before;
  if (given.size() != 2 * count) {
    c.b.fail("{} widths of {} dimensions", given.size(), count);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = c.b.axis(x, axes[i]);
    if (!c.b.ok()) return;
    before[at(axis)] = given[i];
    after[at(axis)] = given[count + i];
    const auto [least, most] = std::minmax(given[i], given[count + i]);
    if (least < -(1 << 20) || most > 1 << 20) {
      c.b.fail("a width of {} or {}", given[i], given[count + i]);
      return;
    }
  }
  if (mode == "constant") return c.out(c.b.pad(x, before, after, fill));
  if (mode != "edge" && mode != "wrap" && mode != "reflect") {
    c.b.fail("the mode \"{}\"", base::escaped(mode));
    return;
  }
  for (int64_t axis = 0; axis < c.b.rank(x); ++axis) {
    if (before[at(axis)] == 0 && after[at(axis)] == 0) continue;
    const int64_t size = c.b.size(x, axis);
    if (size == 0) {
      c.b.fail("nothing to repeat in a dimension of 0");
      return;
    }
    if (!c.b.listable(size + (1 << 20))) return;
    std::vector<int64_t> places;
    for (int64_t i = -before[at(axis)]; i < size + after[at(axis)]; ++i) {
      places.push_back(padded_place(i, size, mode));
    }
    x = c.b.pick(x, axis, places);
  }
  c.out(x);
}

// [n, c, h, w]: blocks of `size` x `size` become channels, or back.
void depth_to_space(Call& c) {
  const Value x = c.in(0);
  const Shape s = c.b.shape(x);
  const int64_t block = c.integer("blocksize", 1);
  if (s.size() != 4 || block < 1 || block > 1 << 15 || s[1] % (block * block) != 0) {
    c.b.fail("blocks of {} in {}", block, graph::shape_text(s));
    return;
  }
  const int64_t depth = s[1] / (block * block);
  Value y = graph::kNone;
  if (c.text("mode", "DCR") == "DCR") {
    y = c.b.transpose(c.b.reshape(x, {s[0], block, block, depth, s[2], s[3]}), {0, 3, 4, 1, 5, 2});
  } else {
    y = c.b.transpose(c.b.reshape(x, {s[0], depth, block, block, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  }
  c.out(c.b.reshape(y, {s[0], depth, s[2] * block, s[3] * block}));
}

void space_to_depth(Call& c) {
  const Value x = c.in(0);
  const Shape s = c.b.shape(x);
  const int64_t block = c.integer("blocksize", 1);
  if (s.size() != 4 || block < 1 || block > 1 << 15 || s[2] % block != 0 || s[3] % block != 0) {
    c.b.fail("blocks of {} in {}", block, graph::shape_text(s));
    return;
  }
  const int64_t height = s[2] / block, width = s[3] / block;
  const Value y =
      c.b.transpose(c.b.reshape(x, {s[0], s[1], height, block, width, block}), {0, 3, 5, 1, 2, 4});
  c.out(c.b.reshape(y, {s[0], s[1] * block * block, height, width}));
}

void reverse_sequence(Call& c) {
  const Value x = c.in(0);
  const int64_t batch_axis = c.integer("batch_axis", 1), time_axis = c.integer("time_axis", 0);
  const std::vector<int64_t> lengths = c.known_integers(1);
  if (!c.b.ok()) return;
  std::vector<Value> rows;
  const int64_t steps = c.b.size(x, time_axis), batch = c.b.size(x, batch_axis);
  if (!c.b.listable(steps)) return;
  if (static_cast<int64_t>(lengths.size()) != batch || batch_axis == time_axis) {
    c.b.fail("{} lengths for a batch of {}, of steps along dimension {}", lengths.size(), batch,
             time_axis);
  }
  for (size_t i = 0; i < lengths.size() && c.b.ok(); ++i) {
    std::vector<int64_t> places;
    for (int64_t t = 0; t < steps; ++t) places.push_back(t < lengths[i] ? lengths[i] - 1 - t : t);
    const Value row = c.b.slice_axis(x, batch_axis, {static_cast<int64_t>(i), 1, 1});
    rows.push_back(c.b.pick(row, time_axis, places));
  }
  c.out(c.b.concat(rows, batch_axis));
}

void triangle(Call& c) {
  const Value x = c.in(0);
  const Shape shape = c.b.shape(x);
  if (shape.size() < 2) {
    c.b.fail("it needs a matrix, found {}", graph::shape_text(shape));
    return;
  }
  int64_t diagonal = 0;
  if (c.has(1)) {
    constexpr int64_t kFar = int64_t{1} << 40;
    diagonal = std::clamp(c.known_integer(1), -kFar, kFar);
  }
  const Shape matrix(shape.end() - 2, shape.end());
  const Value rows = c.b.counting(Type::kI64, matrix, 0);
  const Value columns = c.b.counting(Type::kI64, matrix, 1);
  const Value edge = c.b.map(Function::kAdd, rows, static_cast<double>(diagonal));
  const bool upper = c.integer("upper", 1) != 0;
  const Value kept =
      c.b.map(upper ? Function::kGreaterOrEqual : Function::kLessOrEqual, columns, edge);
  c.out(c.b.select(kept, x, c.b.scalar(c.b.type(x), 0)));
}

void center_crop_pad(Call& c) {
  Value x = c.in(0);
  const std::vector<int64_t> sizes = c.known_integers(1);
  std::vector<int64_t> axes = c.integers("axes");
  if (!c.has_attribute("axes")) {
    for (int64_t i = 0; i < c.b.rank(x); ++i) axes.push_back(i);
  }
  if (sizes.size() != axes.size()) c.b.fail("{} sizes of {} axes", sizes.size(), axes.size());
  for (size_t i = 0; i < axes.size() && c.b.ok(); ++i) {
    const int64_t axis = c.b.axis(x, axes[i]);
    const int64_t size = c.b.size(x, axis);
    if (sizes[i] < 0 || !c.b.ok()) {
      c.b.fail("a size of {}", sizes[i]);
    } else if (sizes[i] < size) {
      x = c.b.slice_axis(x, axis, {(size - sizes[i]) / 2, sizes[i], 1});
    } else {
      std::vector<int64_t> before(at(c.b.rank(x)), 0), after = before;
      before[at(axis)] = (sizes[i] - size) / 2;
      after[at(axis)] = sizes[i] - size - before[at(axis)];
      x = c.b.pad(x, before, after, 0);
    }
  }
  c.out(x);
}

constexpr Operator kMoveOperators[] = {
    {"CenterCropPad", center_crop_pad},
    {"Concat", concat},
    {"DepthToSpace", depth_to_space},
    {"Expand", expand},
    {"Pad", pad},
    {"ReverseSequence", reverse_sequence},
    {"Slice", slice},
    {"SpaceToDepth", space_to_depth},
    {"Split", split},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Trilu", triangle},
};

}  // namespace

std::span<const Operator> move_operators() { return kMoveOperators; }

}  // namespace neuron::onnx
