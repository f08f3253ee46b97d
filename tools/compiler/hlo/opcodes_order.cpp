// SPDX-License-Identifier: Apache-2.0
// Sorting, and the largest elements of rows. An element's rank is the number of elements in front
// of it; the result at a place is the element whose rank that is.
#include <functional>
#include <limits>

#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

// Elements of a row that are compared, each with each.
constexpr int64_t kMostCompared = 4096;
// Elements that are found one after the other in longer rows.
constexpr int64_t kMostFound = 256;

// Whether a goes in front of c, for each pair of elements.
using InFront = std::function<Value(const Values& a, const Values& c)>;

// Arrays [rows, count] whose rows are sorted together.
struct Rows {
  Values arrays;
  int64_t rows = 1, count = 1;
};

// The rank of every element of its row, [rows, count]. Elements of which none goes in front of the
// other keep their order.
Value ranks_of(Step& s, const Rows& r, const InFront& in_front) {
  Values mine, others;
  for (const Value array : r.arrays) {
    mine.push_back(s.b.reshape(array, {r.rows, r.count, 1}));
    others.push_back(s.b.reshape(array, {r.rows, 1, r.count}));
  }
  const Shape pairs = {r.rows, r.count, r.count};
  if (!s.b.allowed(pairs)) return graph::kNone;
  const Value sooner = in_front(others, mine);
  const Value no_later = s.b.map(Function::kNot, in_front(mine, others));
  if (!s.b.ok()) return graph::kNone;
  const Value my_place = s.b.counting(Type::kI32, {r.count, r.count}, 0);
  const Value other_place = s.b.counting(Type::kI32, {r.count, r.count}, 1);
  Value before = s.b.select(s.b.map(Function::kLess, other_place, my_place), no_later, sooner);
  before = s.b.map(Function::kAnd, before, s.b.map(Function::kNotEqual, other_place, my_place));
  const Value counted = s.b.cast(s.b.expand(before, pairs), Type::kI32);
  return s.b.reduce(Function::kAdd, counted, {2}, false);
}

// The elements of the first `k` ranks, [rows, k]. One element of each row is chosen, so the sum is
// that element; others may be infinite.
Value ranked(Step& s, const Rows& r, Value array, Value ranks, int64_t k) {
  if (!s.b.ok()) return graph::kNone;
  const Type type = s.b.type(array), inner = type == Type::kBool ? Type::kI32 : type;
  const Value first = s.b.counting(Type::kI32, {k, 1}, 0);
  const Value chosen = s.b.map(Function::kEqual, s.b.reshape(ranks, {r.rows, 1, r.count}), first);
  const Value values = s.b.reshape(s.b.cast(array, inner), {r.rows, 1, r.count});
  const Value picked = s.b.select(chosen, values, s.b.scalar(inner, 0));
  return s.b.cast(s.b.reduce(Function::kAdd, picked, {2}, false), type);
}

bool few_enough(Step& s, int64_t count) {
  if (count <= kMostCompared) return true;
  s.b.fail(
      "{} elements are put in order, each compared with each; at most {} are supported, so sort "
      "parts of them",
      count, kMostCompared);
  return false;
}

Values sort(Step& s) {
  const Shape shape = s.b.shape(s.in(0));
  const std::vector<int64_t> axes = s.dimensions();
  if (!s.b.ok()) return {graph::kNone};
  if (axes.size() != 1 || axes[0] < 0 || at(axes[0]) >= shape.size()) {
    return {s.b.fail("{} axes of {}", axes.size(), graph::shape_text(shape))};
  }
  const int64_t axis = axes[0], last = static_cast<int64_t>(shape.size()) - 1;
  std::vector<int64_t> order, back(shape.size());
  for (int64_t i = 0; i <= last; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  Shape turned;
  for (size_t i = 0; i < order.size(); ++i) {
    back[at(order[i])] = static_cast<int64_t>(i);
    turned.push_back(shape[at(order[i])]);
  }
  Rows r;
  r.count = shape[at(axis)];
  if (r.count < 2) {
    Values same;
    for (size_t i = 0; i < s.count(); ++i) same.push_back(s.in(i));
    return same;
  }
  r.rows = graph::elements_of(shape) / r.count;
  if (!few_enough(s, r.count)) return {graph::kNone};
  for (size_t i = 0; i < s.count(); ++i) {
    const Value x = s.in(i);
    if (!s.b.ok()) return {graph::kNone};
    if (s.b.shape(x) != shape) {
      return {s.b.fail("{} and {} sorted together", graph::shape_text(shape),
                       graph::shape_text(s.b.shape(x)))};
    }
    r.arrays.push_back(s.b.reshape(s.b.transpose(x, order), {r.rows, r.count}));
  }
  const Value ranks = ranks_of(s, r, [&](const Values& a, const Values& c) {
    Values pairs;
    for (size_t i = 0; i < a.size(); ++i) {
      pairs.push_back(a[i]);
      pairs.push_back(c[i]);
    }
    const Values found = s.run_each(s.called(0), pairs);
    const bool truth = s.b.ok() && found.size() == 1 && s.b.type(found[0]) == Type::kBool;
    return truth ? found[0] : s.b.fail("a comparison that gives no truth value");
  });
  Values results;
  for (const Value array : r.arrays) {
    results.push_back(
        s.b.transpose(s.b.reshape(ranked(s, r, array, ranks, r.count), turned), back));
  }
  return results;
}

double end_of(Type type, bool lowest) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double end = lowest ? -kInfinity : kInfinity;
  return graph::is_real(type) ? end : static_cast<double>(graph::truncated(type, end));
}

// One after the other: the best of those that are left, and the first place where it is.
Values best_in_turn(Step& s, const Rows& r, bool largest, int64_t k) {
  const Value x = r.arrays[0];
  const Type type = s.b.type(x);
  const Value places = s.b.counting(Type::kI32, {r.rows, r.count}, 1);
  const Value none = s.b.scalar(type, end_of(type, largest));
  const Value nowhere = s.b.scalar(Type::kI32, static_cast<double>(r.count));
  const Function fold = largest ? Function::kMaximum : Function::kMinimum;
  Values values, indices;
  Value left = graph::kNone;
  for (int64_t i = 0; i < k && s.b.ok(); ++i) {
    const Value best = s.b.reduce(fold, i == 0 ? x : s.b.select(left, x, none), {1}, true);
    Value same = s.b.map(Function::kEqual, x, best);
    if (i > 0) same = s.b.map(Function::kAnd, same, left);
    const Value place =
        s.b.reduce(Function::kMinimum, s.b.select(same, places, nowhere), {1}, true);
    const Value others = s.b.map(Function::kNotEqual, places, place);
    left = i == 0 ? others : s.b.map(Function::kAnd, left, others);
    values.push_back(best);
    indices.push_back(place);
  }
  return {s.b.concat(values, 1), s.b.concat(indices, 1)};
}

Values ranked_best(Step& s, const Rows& r, bool largest, int64_t k) {
  const bool real = graph::is_real(s.b.type(r.arrays[0]));
  const Value ranks = ranks_of(s, r, [&](const Values& a, const Values& c) {
    const Value better = s.b.map(largest ? Function::kGreater : Function::kLess, a[0], c[0]);
    if (!real) return better;
    // NaN is larger than all other numbers.
    const Value nan = s.b.map(Function::kIsNan, largest ? a[0] : c[0]);
    const Value number = s.b.map(Function::kNot, s.b.map(Function::kIsNan, largest ? c[0] : a[0]));
    return s.b.map(Function::kOr, better, s.b.map(Function::kAnd, nan, number));
  });
  const Value places = s.b.expand(s.b.counting(Type::kI32, {1, r.count}, 1), {r.rows, r.count});
  return {ranked(s, r, r.arrays[0], ranks, k), ranked(s, r, places, ranks, k)};
}

// A tuple of the values and their places in the last dimension; of equal ones the first comes
// first.
Values top_k(Step& s, bool largest) {
  const Value x = s.in(0);
  const auto& parts = s.instruction.shape().tuple_shapes();
  if (!s.b.ok()) return {graph::kNone};
  Shape shape = s.b.shape(x);
  if (parts.size() != 2 || shape.empty() ||
      static_cast<size_t>(parts.Get(0).dimensions_size()) != shape.size()) {
    return {s.b.fail("a result of {} arrays; values and places of {} are expected", parts.size(),
                     graph::shape_text(shape))};
  }
  Rows r;
  r.arrays = {x};
  r.count = shape.back();
  const int64_t k = shape_of(parts.Get(0)).back();
  if (k < 1 || k > r.count) return {s.b.fail("the {} best of {}", k, r.count)};
  r.rows = graph::elements_of(shape) / r.count;
  r.arrays = {s.b.reshape(x, {r.rows, r.count})};
  // Six steps for each element that is found, as against each with each.
  const bool in_turn = 6 * k <= r.count || (r.count > kMostCompared && k <= kMostFound);
  if (!in_turn && !few_enough(s, r.count)) return {graph::kNone};
  const Values found = in_turn ? best_in_turn(s, r, largest, k) : ranked_best(s, r, largest, k);
  shape.back() = k;
  const auto type = type_of(parts.Get(1).element_type());
  if (!type) {
    return {s.b.fail("places of element type {}", element_type_text(parts.Get(1).element_type()))};
  }
  return {s.b.reshape(found[0], shape), s.b.reshape(s.b.cast(found[1], *type), shape)};
}

Values largest(Step& s) { return top_k(s, true); }

Values top_k_of_either(Step& s) { return top_k(s, s.instruction.largest()); }

constexpr Opcode kOrderOpcodes[] = {
    {"custom-call AwsNeuronTopK", largest},
    {"custom-call TopK", largest},
    {"sort", sort},
    {"topk", top_k_of_either},
};

}  // namespace

std::span<const Opcode> order_opcodes() { return kOrderOpcodes; }

}  // namespace neuron::hlo
