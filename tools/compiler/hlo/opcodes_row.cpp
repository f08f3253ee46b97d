// SPDX-License-Identifier: Apache-2.0
// Opcodes whose places are data: windows of an array are read or written as rows of it.
#include <algorithm>

#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

template <class List>
bool has(const List& list, int64_t wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

// An array as rows of the trailing dimensions that every window has whole and from their start.
struct Windows {
  Shape shape, sizes;            // of the array, of a window
  std::vector<int64_t> indexed;  // dimensions that have a start
  size_t split = 0;              // dimensions in front of a row
  int64_t width = 1, rows = 1;   // of a row, of the array
};

bool read_windows(Step& s, const Shape& shape, const Shape& sizes,
                  const std::vector<int64_t>& indexed, Windows& w) {
  w = {shape, sizes, indexed, shape.size(), 1, 1};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (sizes.size() != shape.size() || sizes[i] < 1 || sizes[i] > shape[i]) {
      s.b.fail("windows of {} in {}", graph::shape_text(sizes), graph::shape_text(shape));
      return false;
    }
  }
  for (const int64_t d : indexed) {
    if (d < 0 || at(d) >= shape.size()) {
      s.b.fail("starts in dimension {} of {}", d, shape.size());
      return false;
    }
  }
  while (w.split > 0 && sizes[w.split - 1] == shape[w.split - 1] &&
         !has(indexed, static_cast<int64_t>(w.split) - 1)) {
    w.width *= shape[--w.split];
  }
  w.rows = graph::elements_of(shape) / w.width;
  return true;
}

// The row of each window's first element [windows], from starts [windows, indexed dimensions].
// Starts beyond the last place where a window fits are moved there, or their windows get row -1.
Value first_rows(Step& s, const Windows& w, Value starts, bool moves) {
  const int64_t count = s.b.size(starts, 0);
  const Value whole = s.b.cast(starts, Type::kI64);
  Value sum = s.b.expand(s.b.scalar(Type::kI64, 0), {count});
  Value valid = s.b.expand(s.b.scalar(Type::kBool, 1), {count});
  const Shape steps = graph::strides_of(w.shape);
  for (size_t i = 0; i < w.indexed.size(); ++i) {
    const size_t d = at(w.indexed[i]);
    const auto most = static_cast<double>(w.shape[d] - w.sizes[d]);
    const Value given =
        s.b.reshape(s.b.slice_axis(whole, 1, {static_cast<int64_t>(i), 1, 1}), {count});
    const Value near = s.b.map(Function::kMinimum, s.b.map(Function::kMaximum, given, 0.0), most);
    if (!moves) valid = s.b.map(Function::kAnd, valid, s.b.map(Function::kEqual, given, near));
    sum = s.b.add(sum, s.b.map(Function::kMultiply, near, static_cast<double>(steps[d] / w.width)));
  }
  return moves ? sum : s.b.select(valid, sum, s.b.scalar(Type::kI64, -1));
}

// The rows of all windows, [windows * rows of a window].
Value all_rows(Step& s, const Windows& w, Value first) {
  const Shape steps = graph::strides_of(w.shape);
  const Shape front(w.sizes.begin(), w.sizes.begin() + static_cast<ptrdiff_t>(w.split));
  Value offsets = s.b.expand(s.b.scalar(Type::kI64, 0), front);
  for (size_t d = 0; d < w.split; ++d) {
    const Value place = s.b.counting(Type::kI64, front, static_cast<int64_t>(d));
    const auto step = static_cast<double>(steps[d] / w.width);
    offsets = s.b.add(offsets, s.b.map(Function::kMultiply, place, step));
  }
  const int64_t count = s.b.size(first, 0), rows = graph::elements_of(front);
  if (!s.b.allowed({count, rows})) return graph::kNone;
  const Value column = s.b.reshape(first, {count, 1});
  const Value all = s.b.add(column, s.b.reshape(offsets, {1, rows}));
  // Windows that are left out are so with all of their rows.
  const Value out = s.b.map(Function::kLess, column, 0.0);
  return s.b.reshape(s.b.select(out, s.b.scalar(Type::kI64, -1), all), {count * rows});
}

Value table(Step& s, const Windows& w, Value x) { return s.b.reshape(x, {w.rows, w.width}); }

// Starts [windows, numbers of a start] and the dimensions of the windows' list.
struct Starts {
  Value list = graph::kNone;
  Shape outer;
};

Starts read_starts(Step& s, Value indices, int64_t vector_axis) {
  Shape shape = s.b.shape(indices);
  const auto rank = static_cast<int64_t>(shape.size());
  if (vector_axis < 0 || vector_axis > rank) {
    s.b.fail("numbers in dimension {} of {}", vector_axis, graph::shape_text(shape));
    return {};
  }
  Starts starts;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) {
    if (i == vector_axis) continue;
    order.push_back(i);
    starts.outer.push_back(shape[at(i)]);
  }
  const int64_t length = vector_axis == rank ? 1 : shape[at(vector_axis)];
  if (vector_axis < rank) order.push_back(vector_axis);
  starts.list =
      s.b.reshape(s.b.transpose(indices, order), {graph::elements_of(starts.outer), length});
  return starts;
}

// The places of the dimensions [outer..., window...] in a result whose window dimensions have the
// numbers `window`.
std::vector<int64_t> places_of(const Shape& result, size_t outer,
                               const std::vector<int64_t>& window) {
  std::vector<int64_t> order;
  size_t next_outer = 0, next_window = outer;
  for (int64_t i = 0; i < static_cast<int64_t>(result.size()); ++i) {
    order.push_back(static_cast<int64_t>(has(window, i) ? next_window++ : next_outer++));
  }
  return order;
}

Values gather(Step& s) {
  const auto& numbers = s.instruction.gather_dimension_numbers();
  const Value x = s.in(0);
  const Starts starts = read_starts(s, s.in(1), numbers.index_vector_dim());
  const Shape sizes(s.instruction.gather_slice_sizes().begin(),
                    s.instruction.gather_slice_sizes().end());
  const std::vector<int64_t> indexed(numbers.start_index_map().begin(),
                                     numbers.start_index_map().end());
  Windows w;
  if (!s.b.ok() || numbers.operand_batching_dims_size() != 0) {
    return {s.b.fail("batching dimensions of a gather")};
  }
  if (!read_windows(s, s.b.shape(x), sizes, indexed, w)) return {graph::kNone};
  if (s.b.size(starts.list, 1) != static_cast<int64_t>(indexed.size())) {
    return {s.b.fail("starts of {}", indexed.size())};
  }
  const Value wanted = all_rows(s, w, first_rows(s, w, starts.list, true));
  const Value found = s.b.gather(table(s, w, x), wanted);
  Shape parts = starts.outer;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!has(numbers.collapsed_slice_dims(), static_cast<int64_t>(i))) parts.push_back(sizes[i]);
  }
  const std::vector<int64_t> window(numbers.offset_dims().begin(), numbers.offset_dims().end());
  return {
      s.b.transpose(s.b.reshape(found, parts), places_of(s.shape(), starts.outer.size(), window))};
}

Values scatter(Step& s) {
  const auto& numbers = s.instruction.scatter_dimension_numbers();
  if (s.count() != 3 || numbers.input_batching_dims_size() != 0) {
    return {s.b.fail("{} operands or batching dimensions of a scatter", s.count())};
  }
  const Value x = s.in(0), updates = s.in(2);
  const Shape shape = s.b.shape(x), given = s.b.shape(updates);
  const Starts starts = read_starts(s, s.in(1), numbers.index_vector_dim());
  const std::vector<int64_t> window(numbers.update_window_dims().begin(),
                                    numbers.update_window_dims().end());
  const std::vector<int64_t> indexed(numbers.scatter_dims_to_operand_dims().begin(),
                                     numbers.scatter_dims_to_operand_dims().end());
  Shape sizes;
  size_t next = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (has(numbers.inserted_window_dims(), static_cast<int64_t>(i))) {
      sizes.push_back(1);
    } else if (next < window.size() && window[next] >= 0 && at(window[next]) < given.size()) {
      sizes.push_back(given[at(window[next++])]);
    }
  }
  Windows w;
  if (!s.b.ok() || !read_windows(s, shape, sizes, indexed, w)) return {graph::kNone};
  if (s.b.size(starts.list, 1) != static_cast<int64_t>(indexed.size())) {
    return {s.b.fail("starts of {}", indexed.size())};
  }
  // [lists..., windows...]
  std::vector<int64_t> order, last;
  for (int64_t i = 0; i < static_cast<int64_t>(given.size()); ++i) {
    (has(window, i) ? last : order).push_back(i);
  }
  order.insert(order.end(), last.begin(), last.end());
  const Value rows = all_rows(s, w, first_rows(s, w, starts.list, false));
  const Value data = s.b.reshape(s.b.transpose(updates, order), {s.b.size(rows, 0), w.width});
  const Step::Combination how = s.combine(s.called(0));
  if (!how.function && !how.second) {
    return {s.b.fail("a computation that is not +, x, max, min or the update")};
  }
  std::optional<Function> function = how.second ? std::nullopt : how.function;
  if (function == Function::kAnd || function == Function::kOr) {
    // "and" of truth values is their minimum.
    if (s.b.ok() && s.b.type(x) != Type::kBool) {
      return {s.b.fail("bits of {} combined", graph::type_name(s.b.type(x)))};
    }
    function = function == Function::kAnd ? Function::kMinimum : Function::kMaximum;
  }
  const Value y = s.b.scatter(table(s, w, x), rows, data, function);
  return {s.b.reshape(y, shape)};
}

// The starts of one window, one operand each from `first` on.
Value one_start(Step& s, size_t first) {
  Values list;
  for (size_t i = first; i < s.count(); ++i) {
    list.push_back(s.b.reshape(s.b.cast(s.in(i), Type::kI64), {1, 1}));
  }
  return list.empty() ? s.b.fail("no starts") : s.b.concat(list, 1);
}

bool one_window(Step& s, const Shape& shape, const Shape& sizes, size_t first, Windows& w) {
  std::vector<int64_t> indexed;
  for (size_t i = 0; i < shape.size(); ++i) indexed.push_back(static_cast<int64_t>(i));
  if (s.count() != first + shape.size()) {
    s.b.fail("{} starts of {} dimensions", s.count() - std::min(first, s.count()), shape.size());
    return false;
  }
  // Where a window is as wide as the array it can only start at 0.
  if (!read_windows(s, shape, sizes, {}, w)) return false;
  w.indexed = indexed;
  return true;
}

Values dynamic_slice(Step& s) {
  const Value x = s.in(0);
  const Shape sizes(s.instruction.dynamic_slice_sizes().begin(),
                    s.instruction.dynamic_slice_sizes().end());
  Windows w;
  if (!one_window(s, s.b.shape(x), sizes, 1, w)) return {graph::kNone};
  const Value rows = all_rows(s, w, first_rows(s, w, one_start(s, 1), true));
  return {s.b.reshape(s.b.gather(table(s, w, x), rows), sizes)};
}

Values dynamic_update_slice(Step& s) {
  const Value x = s.in(0), update = s.in(1);
  const Shape sizes = s.b.shape(update);
  Windows w;
  if (!one_window(s, s.b.shape(x), sizes, 2, w)) return {graph::kNone};
  const Value rows = all_rows(s, w, first_rows(s, w, one_start(s, 2), true));
  const Value data = s.b.reshape(update, {s.b.size(rows, 0), w.width});
  return {s.b.reshape(s.b.scatter(table(s, w, x), rows, data, std::nullopt), s.b.shape(x))};
}

constexpr Opcode kRowOpcodes[] = {
    {"dynamic-slice", dynamic_slice},
    {"dynamic-update-slice", dynamic_update_slice},
    {"gather", gather},
    {"scatter", scatter},
};

}  // namespace

std::span<const Opcode> row_opcodes() { return kRowOpcodes; }

}  // namespace neuron::hlo
