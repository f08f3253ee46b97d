// SPDX-License-Identifier: Apache-2.0
// The largest elements and their places, and operators whose results have as many elements as the
// data say: these are computed while compiling, from constants.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

// Rows that are compared in pairs while compiling.
constexpr int64_t kMostCompared = 16384;

template <bool kLargest>
void best_index(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.b.axis(x, c.integer("axis", 0));
  const Value found = c.b.best_index(x, axis, kLargest, c.integer("select_last_index", 0) != 0);
  if (c.integer("keepdims", 1) != 0 || !c.b.ok()) return c.out(found);
  Shape shape = c.b.shape(found);
  shape.erase(shape.begin() + axis);
  c.out(c.b.reshape(found, shape));
}

// What x is compared by: NaN, which no comparison finds, counts as infinite, as far in front as it
// is for ArgMax and ArgMin.
Value ordered(Call& c, Value x, bool largest) {
  if (!c.b.ok() || !graph::is_real(c.b.type(x))) return x;
  const double infinite = std::numeric_limits<double>::infinity();
  const Value first = c.b.scalar(c.b.type(x), largest ? infinite : -infinite);
  return c.b.select(c.b.map(Function::kIsNan, x), first, x);
}

// The rank of each element is how many others come before it; the elements of the first ranks are
// selected by comparing ranks with places.
void top_k(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.b.axis(x, c.integer("axis", -1));
  const std::vector<int64_t> given =
      c.opset() < 10 ? std::vector<int64_t>{c.integer("k", 1)} : c.known_integers(1);
  const int64_t count = c.b.size(x, axis);
  if (given.size() != 1 || !c.b.ok()) return;
  const int64_t k = given[0];
  if (k < 1 || k > count) {
    c.b.fail("the {} largest of {}", k, count);
    return;
  }
  std::vector<int64_t> order, back(at(c.b.rank(x)));
  for (int64_t i = 0; i < c.b.rank(x); ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  for (size_t i = 0; i < order.size(); ++i) back[at(order[i])] = static_cast<int64_t>(i);
  const Value turned = c.b.transpose(x, order);
  Shape shape = c.b.shape(turned);
  const int64_t rows = graph::elements_of(shape) / std::max<int64_t>(1, count);
  const bool largest = c.integer("largest", 1) != 0;
  const Value order_by = ordered(c, turned, largest);
  const Value mine = c.b.reshape(order_by, {rows, count, 1});
  const Value others = c.b.reshape(order_by, {rows, 1, count});
  const Value my_place = c.b.counting(Type::kI32, {count, count}, 0);
  const Value other_place = c.b.counting(Type::kI32, {count, count}, 1);
  const Value better = c.b.map(largest ? Function::kGreater : Function::kLess, others, mine);
  const Value in_front = c.b.map(Function::kLess, other_place, my_place);
  const Value tie = c.b.map(Function::kAnd, c.b.map(Function::kEqual, others, mine), in_front);
  const Value before = c.b.cast(c.b.map(Function::kOr, better, tie), Type::kI32);
  const Value ranks = c.b.reshape(c.b.reduce(Function::kAdd, before, {2}, false), {rows, 1, count});
  const Value chosen = c.b.map(Function::kEqual, ranks, c.b.counting(Type::kI32, {k, 1}, 0));
  // One element of each row is chosen, so the sum is that element; others may be infinite.
  const auto selected = [&](Value values, Type type) {
    const Value picked = c.b.select(chosen, values, c.b.scalar(type, 0));
    shape.back() = k;
    return c.b.transpose(c.b.reshape(c.b.reduce(Function::kAdd, picked, {2}, false), shape), back);
  };
  c.out(selected(c.b.reshape(turned, {rows, 1, count}), c.b.type(x)));
  c.out(c.b.cast(selected(c.b.counting(Type::kI32, {1, count}, 1), Type::kI32), Type::kI64));
}

void non_zero(Call& c) {
  const Tensor* x = c.known(0);
  if (x == nullptr) return;
  const Shape shape = c.shape(0), steps = graph::strides_of(shape);
  const size_t rank = std::max<size_t>(1, shape.size());
  std::vector<std::vector<int64_t>> places(rank);
  int64_t found = 0;
  for (int64_t i = 0; i < x->elements(); ++i) {
    if (x->real(at(i)) == 0) continue;
    ++found;
    for (size_t d = 0; d < rank; ++d) {
      places[d].push_back(shape.empty() ? 0 : i / steps[d] % shape[d]);
    }
  }
  std::vector<int64_t> all;
  for (const auto& list : places) all.insert(all.end(), list.begin(), list.end());
  c.out(c.b.constant(Tensor::of_integers(Type::kI64, {static_cast<int64_t>(rank), found}, all)));
}

// Rows of a constant along an axis, compared element by element.
class RowOrder {
 public:
  RowOrder(const Tensor& x, int64_t axis) : x_(x) {
    const Shape steps = graph::strides_of(x.shape);
    step_ = steps[at(axis)];
    count_ = x.shape[at(axis)];
    for (int64_t i = 0; i < x.elements(); ++i) {
      if (i / step_ % count_ == 0) first_.push_back(i);
    }
  }
  int compare(int64_t a, int64_t b) const {
    for (const int64_t first : first_) {
      const int order = compare_elements(at(first + a * step_), at(first + b * step_));
      if (order != 0) return order;
    }
    return 0;
  }

 private:
  // NaN stands behind all numbers and equals NaN: without such an order nothing can be sorted.
  int compare_elements(size_t a, size_t b) const {
    if (graph::is_real(x_.type)) {
      const double left = x_.reals[a], right = x_.reals[b];
      const bool left_nan = std::isnan(left), right_nan = std::isnan(right);
      if (left_nan || right_nan) return static_cast<int>(left_nan) - static_cast<int>(right_nan);
      return static_cast<int>(left > right) - static_cast<int>(left < right);
    }
    const int64_t left = x_.integers[a], right = x_.integers[b];
    if (x_.type == Type::kU64) {
      const auto x = static_cast<uint64_t>(left), y = static_cast<uint64_t>(right);
      return static_cast<int>(x > y) - static_cast<int>(x < y);
    }
    return static_cast<int>(left > right) - static_cast<int>(left < right);
  }

  const Tensor& x_;
  int64_t step_ = 1, count_ = 1;
  std::vector<int64_t> first_;
};

void unique(Call& c) {
  const Tensor* known = c.known(0);
  if (known == nullptr) return;
  Tensor x = *known;
  x.shape = c.shape(0);
  int64_t axis = 0;
  if (c.has_attribute("axis")) {
    axis = c.b.axis(c.in(0), c.integer("axis", 0));
  } else {
    x.shape = {x.elements()};
  }
  if (!c.b.ok()) return;
  const int64_t count = x.shape[at(axis)];
  if (count < 1 || count > kMostCompared) {
    c.b.fail("{} rows are compared; 1 to {} are supported", count, kMostCompared);
    return;
  }
  const RowOrder order(x, axis);
  // Equal rows stand together in order, the first one in front.
  std::vector<int64_t> rows(at(count)), group(at(count), 0), first;
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(),
                   [&](int64_t a, int64_t b) { return order.compare(a, b) < 0; });
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || order.compare(rows[i - 1], rows[i]) != 0) first.push_back(rows[i]);
    group[at(rows[i])] = static_cast<int64_t>(first.size()) - 1;
  }
  std::vector<int64_t> ranks(first.size()), places(first.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (c.integer("sorted", 1) == 0) {
    std::sort(ranks.begin(), ranks.end(),
              [&](int64_t a, int64_t b) { return first[at(a)] < first[at(b)]; });
  }
  std::vector<int64_t> sorted_first, sorted_counts(ranks.size(), 0), inverse;
  for (size_t i = 0; i < ranks.size(); ++i) {
    places[at(ranks[i])] = static_cast<int64_t>(i);
    sorted_first.push_back(first[at(ranks[i])]);
  }
  for (const int64_t number : group) {
    inverse.push_back(places[at(number)]);
    ++sorted_counts[at(inverse.back())];
  }
  c.out(c.b.pick(c.b.constant(std::move(x)), axis, sorted_first));
  c.out(c.b.integers(sorted_first));
  c.out(c.b.integers(inverse));
  c.out(c.b.integers(sorted_counts));
}

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

Box box_at(const Tensor& boxes, size_t number, bool by_centre) {
  const double a = boxes.real(4 * number), b = boxes.real(4 * number + 1),
               x = boxes.real(4 * number + 2), y = boxes.real(4 * number + 3);
  if (by_centre) return {b - y / 2, a - x / 2, b + y / 2, a + x / 2};
  return {std::min(a, x), std::min(b, y), std::max(a, x), std::max(b, y)};
}

void non_max_suppression(Call& c) {
  const Tensor *boxes = c.known(0), *scores = c.known(1);
  const auto number = [&](size_t input, double otherwise) {
    if (!c.has(input)) return otherwise;
    const Tensor* tensor = c.known(input);
    return tensor != nullptr && tensor->elements() > 0 ? tensor->real(0) : otherwise;
  };
  const double most = number(2, 0), limit = number(3, 0);
  const double least = number(4, -std::numeric_limits<double>::infinity());
  if (boxes == nullptr || scores == nullptr || !c.b.ok()) return;
  const Shape of_boxes = c.shape(0), of_scores = c.shape(1);
  if (of_boxes.size() != 3 || of_scores.size() != 3 || of_boxes[2] != 4 ||
      of_boxes[0] != of_scores[0] || of_boxes[1] != of_scores[2] || of_boxes[1] > kMostCompared) {
    c.b.fail("boxes of {} and scores of {}; at most {} boxes are compared, reduce them before",
             graph::shape_text(of_boxes), graph::shape_text(of_scores), kMostCompared);
    return;
  }
  const bool by_centre = c.integer("center_point_box", 0) != 0;
  const int64_t count = of_boxes[1];
  const double rows_of_scores = static_cast<double>(of_scores[0] * of_scores[1]);
  const double compared =
      static_cast<double>(count) * std::min(static_cast<double>(count), std::max(0.0, most));
  if (rows_of_scores * compared > 0x1p32) {
    c.b.fail("{} rows of {} scores are compared, {:.0f} pairs; at most 2^32 are supported",
             rows_of_scores, count, rows_of_scores * compared);
    return;
  }
  std::vector<int64_t> found;
  for (int64_t row = 0; row < of_scores[0] * of_scores[1]; ++row) {
    const int64_t batch = row / of_scores[1];
    const auto score = [&](int64_t i) { return scores->real(at(row * count + i)); };
    const auto box = [&](int64_t i) { return box_at(*boxes, at(batch * count + i), by_centre); };
    std::vector<int64_t> order(at(count)), kept;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      // NaN is behind all scores; none of them is larger than `least`.
      return score(a) > score(b) || (std::isnan(score(b)) && !std::isnan(score(a)));
    });
    for (const int64_t i : order) {
      if (static_cast<double>(kept.size()) >= most || !(score(i) > least)) break;
      const bool apart = std::all_of(kept.begin(), kept.end(),
                                     [&](int64_t j) { return overlap(box(i), box(j)) <= limit; });
      if (!apart) continue;
      kept.push_back(i);
      found.insert(found.end(), {batch, row % of_scores[1], i});
    }
  }
  const auto rows = static_cast<int64_t>(found.size() / 3);
  c.out(c.b.constant(Tensor::of_integers(Type::kI64, {rows, 3}, std::move(found))));
}

constexpr Operator kSearchOperators[] = {
    {"ArgMax", best_index<true>},
    {"ArgMin", best_index<false>},
    {"NonMaxSuppression", non_max_suppression},
    {"NonZero", non_zero},
    {"TopK", top_k},
    {"Unique", unique},
};

}  // namespace

std::span<const Operator> search_operators() { return kSearchOperators; }

}  // namespace neuron::onnx
