// SPDX-License-Identifier: Apache-2.0
// Reductions, of whole dimensions and of windows, by any computation: those that the device has are
// one reduction, all others fold halves of the array until one row is left, as XLA allows.
#include <algorithm>

#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

// What the device folds at once; "and" and "or" of truth values are their extremes.
std::optional<Function> reduction_of(const Step::Combination& how, Type type) {
  if (how.function != Function::kAnd && how.function != Function::kOr) return how.function;
  if (type != Type::kBool) return std::nullopt;
  return how.function == Function::kAnd ? Function::kMinimum : Function::kMaximum;
}

// Folds the axes of x, then the first value with the result. Truth values are folded as numbers.
Value folded(Step& s, Function function, Value x, Value first, const std::vector<int64_t>& axes) {
  const bool truth = s.b.type(x) == Type::kBool;
  if (truth) {
    x = s.b.cast(x, Type::kI32);
    first = s.b.cast(first, Type::kI32);
  }
  const Value y = s.b.map(function, s.b.reduce(function, x, axes, false), first);
  return truth ? s.b.cast(y, Type::kBool) : y;
}

// Arrays [depth, rows], folded together: the first rows with the last ones, the row between stays.
Values halved(Step& s, Values arrays, int64_t depth, const Values& first) {
  const auto rows = [&](Value x, int64_t begin, int64_t count) {
    return s.b.slice_axis(x, 0, {begin, count, 1});
  };
  const auto combined = [&](const Values& low, const Values& high) {
    Values both = low;
    both.insert(both.end(), high.begin(), high.end());
    Values result = s.run_each(s.called(0), both);
    if (s.b.ok() && result.size() != arrays.size()) {
      s.b.fail("a computation that gives {} values for {} arrays", result.size(), arrays.size());
    }
    return s.b.ok() ? result : Values(arrays.size(), graph::kNone);
  };
  while (depth > 1 && s.b.ok()) {
    const int64_t half = depth / 2;
    Values low, high;
    for (const Value x : arrays) {
      low.push_back(rows(x, 0, half));
      high.push_back(rows(x, depth - half, half));
    }
    Values next = combined(low, high);
    for (size_t i = 0; i < arrays.size() && depth % 2 != 0; ++i) {
      next[i] = s.b.concat({next[i], rows(arrays[i], half, 1)}, 0);
    }
    arrays = std::move(next);
    depth -= half;
  }
  Values spread;
  for (size_t i = 0; i < arrays.size(); ++i) {
    spread.push_back(s.b.ok() ? s.b.expand(first[i], s.b.shape(arrays[i])) : graph::kNone);
  }
  return combined(spread, arrays);
}

struct Operands {
  Values arrays, first;  // as many first values as arrays of one shape
  Shape shape;
};

bool read_operands(Step& s, Operands& o) {
  if (s.count() == 0 || s.count() % 2 != 0) {
    s.b.fail("{} operands; arrays and as many first values are expected", s.count());
    return false;
  }
  for (size_t i = 0; i < s.count(); ++i) {
    (i < s.count() / 2 ? o.arrays : o.first).push_back(s.in(i));
  }
  if (!s.b.ok()) return false;
  o.shape = s.b.shape(o.arrays[0]);
  for (size_t i = 0; i < o.arrays.size(); ++i) {
    if (s.b.shape(o.arrays[i]) == o.shape && s.b.shape(o.first[i]).empty() &&
        s.b.type(o.first[i]) == s.b.type(o.arrays[i])) {
      continue;
    }
    s.b.fail("{} {} and {} folded together, from {} {} on", graph::type_name(s.b.type(o.arrays[i])),
             graph::shape_text(s.b.shape(o.arrays[i])), graph::shape_text(o.shape),
             graph::type_name(s.b.type(o.first[i])), graph::shape_text(s.b.shape(o.first[i])));
    return false;
  }
  return true;
}

Values fold(Step& s, const Operands& o, const std::vector<int64_t>& axes) {
  Shape rest;
  std::vector<int64_t> order = axes, last;
  int64_t depth = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(o.shape.size()); ++i) {
    const auto named = std::count(axes.begin(), axes.end(), i);
    if (named > 1) return {s.b.fail("dimension {} is named twice", i)};
    if (named == 1) {
      depth *= o.shape[at(i)];
    } else {
      rest.push_back(o.shape[at(i)]);
      last.push_back(i);
    }
  }
  for (const int64_t axis : axes) {
    if (axis < 0 || at(axis) >= o.shape.size()) {
      return {s.b.fail("dimension {} of {}", axis, graph::shape_text(o.shape))};
    }
  }
  Values results;
  if (depth == 0 || graph::elements_of(rest) == 0) {
    // Of no elements the first value is left.
    for (const Value first : o.first) results.push_back(s.b.expand(first, rest));
    return results;
  }
  const auto function = reduction_of(s.combine(s.called(0)), s.b.type(o.arrays[0]));
  if (!s.b.ok()) return {graph::kNone};
  if (function && o.arrays.size() == 1) {
    return {folded(s, *function, o.arrays[0], o.first[0], axes)};
  }
  order.insert(order.end(), last.begin(), last.end());
  Values rows;
  for (const Value x : o.arrays) {
    rows.push_back(s.b.reshape(s.b.transpose(x, order), {depth, graph::elements_of(rest)}));
  }
  for (const Value y : halved(s, rows, depth, o.first)) results.push_back(s.b.reshape(y, rest));
  return results;
}

Values reduce(Step& s) {
  Operands o;
  if (!read_operands(s, o)) return {graph::kNone};
  return fold(s, o, s.dimensions());
}

// What lies around the array is the first value.
Values reduce_window(Step& s) {
  Operands o;
  if (!read_operands(s, o)) return {graph::kNone};
  const auto& dimensions = s.instruction.window().dimensions();
  constexpr int64_t kMost = 1 << 24;
  const auto within = [](int64_t value, int64_t least) { return value >= least && value <= kMost; };
  std::vector<Builder::Window> windows;
  for (const auto& d : dimensions) {
    const auto number = static_cast<size_t>(windows.size());
    const bool usual = number < o.shape.size() && within(d.size(), 1) && within(d.stride(), 1) &&
                       within(d.padding_low(), -kMost) && within(d.padding_high(), -kMost) &&
                       within(d.window_dilation(), 0) && d.base_dilation() <= 1 &&
                       !d.window_reversal();
    if (!usual) return {s.b.fail("its window does not fit {}", graph::shape_text(o.shape))};
    const int64_t dilation = std::max<int64_t>(1, d.window_dilation());
    const int64_t room = o.shape[number] + d.padding_low() + d.padding_high();
    const int64_t reach = (d.size() - 1) * dilation + 1;
    if (room < reach) {
      return {s.b.fail("a window of {} does not fit the {} elements of dimension {}", reach, room,
                       number)};
    }
    windows.push_back(
        {d.size(), dilation, (room - reach) / d.stride() + 1, d.stride(), -d.padding_low()});
  }
  if (windows.size() != o.shape.size()) {
    return {
        s.b.fail("a window of {} dimensions in {}", windows.size(), graph::shape_text(o.shape))};
  }
  Operands seen = o;
  for (size_t i = 0; i < o.arrays.size(); ++i) {
    const Tensor* fill = s.b.constant_of(o.first[i]);
    if (fill == nullptr) {
      return {s.b.fail("windows folded from a value on that is only known when it runs")};
    }
    seen.arrays[i] = s.b.windows(o.arrays[i], 0, windows, fill->real(0), true);
  }
  if (!s.b.ok()) return {graph::kNone};
  seen.shape = s.b.shape(seen.arrays[0]);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < windows.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  return fold(s, seen, axes);
}

constexpr Opcode kFoldOpcodes[] = {{"reduce", reduce}, {"reduce-window", reduce_window}};

}  // namespace

std::span<const Opcode> fold_opcodes() { return kFoldOpcodes; }

}  // namespace neuron::hlo
