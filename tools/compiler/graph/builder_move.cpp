// SPDX-License-Identifier: Apache-2.0
// The moves of Builder: each becomes regions of elements that are copied.
#include <algorithm>
#include <numeric>

#include "tools/compiler/graph/builder.h"

namespace neuron::graph {
namespace {

// Each becomes a transfer at least.
constexpr size_t kMostRegions = 1 << 20;

}  // namespace

Value Builder::counting(Type type, const Shape& shape, int64_t axis) {
  constexpr int64_t kMostCounted = 1 << 24;
  axis = axis_of(static_cast<int64_t>(shape.size()), axis);
  if (!ok() || !allowed(shape)) return kNone;
  if (shape[static_cast<size_t>(axis)] > kMostCounted) {
    return fail("{} elements are counted", shape[static_cast<size_t>(axis)]);
  }
  Shape line(shape.size(), 1);
  line[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  Tensor tensor = Tensor::zeros(type, line);
  for (size_t i = 0; i < static_cast<size_t>(tensor.elements()); ++i) {
    tensor.set(i, static_cast<double>(i));
  }
  return expand(constant(std::move(tensor)), shape);
}

Value Builder::move(Value x, Shape shape, Region region, double fill) {
  return regions({x}, std::move(shape), {std::move(region)}, fill);
}

Value Builder::reshape(Value x, Shape to) {
  if (!usable({x}) || shape(x) == to) return x;
  if (!allowed(to)) return kNone;
  const int64_t count = elements_of(to);
  if (count != elements_of(shape(x))) {
    return fail("{} cannot become {}", shape_text(shape(x)), shape_text(to));
  }
  return move(x, std::move(to), {0, 0, 0, {{count, 1, 1}}});
}

Value Builder::transpose(Value x, const std::vector<int64_t>& order) {
  if (!usable({x})) return kNone;
  const Shape from = shape(x);
  std::vector<bool> seen(from.size(), false);
  for (const int64_t axis : order) {
    if (order.size() != from.size() || axis < 0 || axis >= rank(x) || seen[at(axis)]) {
      return fail("the order of a transpose is none of the {} dimensions", from.size());
    }
    seen[at(axis)] = true;
  }
  if (order.size() != from.size()) return fail("a transpose of {} dimensions", from.size());
  if (std::is_sorted(order.begin(), order.end())) return x;
  Shape to;
  for (const int64_t axis : order) to.push_back(from[at(axis)]);
  const Shape to_steps = strides_of(to), from_steps = strides_of(from);
  Region region;
  for (size_t i = 0; i < to.size(); ++i) {
    region.dimensions.push_back({to[i], to_steps[i], from_steps[at(order[i])]});
  }
  return move(x, std::move(to), std::move(region));
}

Value Builder::slice(Value x, const std::vector<Slice>& slices) {
  if (!usable({x})) return kNone;
  const Shape from = shape(x);
  if (slices.size() != from.size()) {
    return fail("{} slices of {} dimensions", slices.size(), from.size());
  }
  const Shape from_steps = strides_of(from);
  Shape to;
  Region region;
  bool whole = true;
  for (size_t i = 0; i < from.size(); ++i) {
    const Slice& part = slices[i];
    const bool several = part.count > 1;
    const auto last = part.first + static_cast<__int128>(several ? part.count - 1 : 0) * part.step;
    const bool there = part.first >= 0 && part.first < from[i] && last >= 0 && last < from[i] &&
                       (!several || part.step != 0);
    if (part.count < 0 || (part.count > 0 && !there)) {
      return fail("{} elements from {} on, {} apart, of a dimension of {}", part.count, part.first,
                  part.step, from[i]);
    }
    to.push_back(part.count);
    region.from += part.count > 0 ? part.first * from_steps[i] : 0;
    region.dimensions.push_back({part.count, 0, several ? part.step * from_steps[i] : 0});
    whole = whole && part.count == from[i] && (part.step == 1 || !several);
  }
  if (whole) return x;
  if (!allowed(to)) return kNone;
  const Shape to_steps = strides_of(to);
  for (size_t i = 0; i < from.size(); ++i) region.dimensions[i].to_step = to_steps[i];
  return move(x, std::move(to), std::move(region));
}

Value Builder::slice_axis(Value x, int64_t axis, Slice part) {
  if (!usable({x})) return kNone;
  std::vector<Slice> slices;
  for (const int64_t size : shape(x)) slices.push_back({0, size, 1});
  if (axis < 0 || axis >= rank(x)) return fail("axis {} of {} dimensions", axis, rank(x));
  slices[at(axis)] = part;
  return slice(x, slices);
}

Value Builder::pad(Value x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                   double fill) {
  if (!usable({x})) return kNone;
  const Shape from = shape(x);
  const Shape from_steps = strides_of(from);
  Shape to = from;
  for (size_t i = 0; i < from.size(); ++i) {
    // Beyond this no array has elements; their sums and negatives are numbers.
    constexpr int64_t kMost = int64_t{1} << 40;
    const bool sane =
        std::max(before[i], after[i]) <= kMost && std::min(before[i], after[i]) >= -kMost;
    if (sane) to[i] += before[i] + after[i];
    if (!sane || to[i] < 0) {
      return fail("a dimension of {} with {} and {} around it", from[i], before[i], after[i]);
    }
  }
  if (to == from && std::all_of(before.begin(), before.end(), [](int64_t n) { return n == 0; })) {
    return x;
  }
  if (!allowed(to)) return kNone;
  const Shape to_steps = strides_of(to);
  Region region;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t cut = std::max<int64_t>(0, -before[i]);
    const int64_t count = from[i] - cut - std::max<int64_t>(0, -after[i]);
    region.to += std::max<int64_t>(0, before[i]) * to_steps[i];
    region.from += cut * from_steps[i];
    region.dimensions.push_back({std::max<int64_t>(0, count), to_steps[i], from_steps[i]});
  }
  return move(x, std::move(to), std::move(region), fill);
}

Value Builder::concat(const std::vector<Value>& values, int64_t axis) {
  if (values.empty()) return fail("nothing to join");
  for (const Value value : values) {
    if (!usable({value})) return kNone;
  }
  if (values.size() == 1) return values[0];
  Shape to = shape(values[0]);
  axis = this->axis(values[0], axis);
  if (!ok()) return kNone;
  for (size_t i = 1; i < values.size(); ++i) {
    Shape other = shape(values[i]);
    if (other.size() != to.size()) {
      return fail("{} and {} in one array", shape_text(to), shape_text(other));
    }
    const int64_t more = other[at(axis)];
    other[at(axis)] = to[at(axis)];
    if (other != to) {
      return fail("{} and {} joined along axis {}", shape_text(to), shape_text(other), axis);
    }
    to[at(axis)] += more;
  }
  if (!allowed(to)) return kNone;
  const Shape to_steps = strides_of(to);
  std::vector<Region> list;
  int64_t place = 0;
  for (const Value value : values) {
    const Shape& from = shape(value);
    const Shape from_steps = strides_of(from);
    Region region;
    region.operand = static_cast<uint32_t>(list.size());
    region.to = place * to_steps[at(axis)];
    for (size_t i = 0; i < from.size(); ++i) {
      region.dimensions.push_back({from[i], to_steps[i], from_steps[i]});
    }
    place += from[at(axis)];
    list.push_back(std::move(region));
  }
  return regions(values, std::move(to), std::move(list));
}

Value Builder::pick(Value x, int64_t axis, const std::vector<int64_t>& numbers, double fill) {
  if (!usable({x})) return kNone;
  const Shape from = shape(x);
  if (axis < 0 || axis >= rank(x)) return fail("axis {} of {} dimensions", axis, rank(x));
  Shape to = from;
  to[at(axis)] = static_cast<int64_t>(numbers.size());
  if (!allowed(to) || !listable(to[at(axis)])) return kNone;
  const Shape to_steps = strides_of(to), from_steps = strides_of(from);
  std::vector<Region> list;
  for (size_t first = 0; first < numbers.size();) {
    if (numbers[first] >= from[at(axis)]) {
      return fail("element {} of a dimension of {}", numbers[first], from[at(axis)]);
    }
    // As many as are there and equally far apart.
    const auto there = [&](size_t i) {
      return i < numbers.size() && numbers[i] >= 0 && numbers[i] < from[at(axis)];
    };
    size_t end = first + 1;
    const int64_t step = there(end) ? numbers[end] - numbers[first] : 0;
    while (there(end) && numbers[end] - numbers[end - 1] == step) ++end;
    if (numbers[first] < 0) {
      ++first;
      continue;
    }
    Region region;
    for (size_t i = 0; i < from.size(); ++i) {
      region.dimensions.push_back({from[i], to_steps[i], from_steps[i]});
    }
    region.to = static_cast<int64_t>(first) * to_steps[at(axis)];
    region.from = numbers[first] * from_steps[at(axis)];
    region.dimensions[at(axis)] = {static_cast<int64_t>(end - first), to_steps[at(axis)],
                                   step * from_steps[at(axis)]};
    list.push_back(std::move(region));
    first = end;
    if (list.size() > kMostRegions) return fail("an array of over {} pieces", kMostRegions);
  }
  return regions({x}, std::move(to), std::move(list), fill);
}

namespace {

// The windows whose element `offset` (times the dilation) lies inside a dimension of `size`.
Slice inside(const Builder::Window& window, int64_t offset, int64_t size) {
  const int64_t place = window.first + offset * window.dilation;
  const int64_t stride = std::max<int64_t>(1, window.stride);
  const int64_t begin = place >= 0 ? 0 : (-place + stride - 1) / stride;
  const int64_t end = size - place <= 0 ? 0 : (size - place + stride - 1) / stride;
  return {begin, std::max<int64_t>(0, std::min(end, window.count) - begin)};
}

}  // namespace

Value Builder::windows(Value x, int64_t outer_axes, const std::vector<Window>& list, double fill,
                       bool sizes_first) {
  if (!usable({x})) return kNone;
  const Shape from = shape(x);
  if (outer_axes + static_cast<int64_t>(list.size()) != rank(x)) {
    return fail("{} windows of {} dimensions", list.size(), rank(x) - outer_axes);
  }
  const Shape from_steps = strides_of(from);
  Shape to(from.begin(), from.begin() + outer_axes), counts, sizes;
  int64_t offsets = 1;
  for (const Window& window : list) {
    if (window.count < 1 || window.size < 1) {
      return fail("a window of {} does not fit {}", window.size, shape_text(from));
    }
    counts.push_back(window.count);
    sizes.push_back(window.size);
    offsets *= window.size;
    if (offsets > 1 << 16) return fail("a window of over 65536 elements");
  }
  const Shape& near = sizes_first ? sizes : counts;
  const Shape& far = sizes_first ? counts : sizes;
  to.insert(to.end(), near.begin(), near.end());
  to.insert(to.end(), far.begin(), far.end());
  if (!allowed(to)) return kNone;
  const Shape to_steps = strides_of(to);
  const size_t outer = at(outer_axes);
  const size_t count_at = sizes_first ? outer + list.size() : outer;
  const size_t size_at = sizes_first ? outer : outer + list.size();
  std::vector<Region> copies;
  for (int64_t number = 0; number < offsets; ++number) {
    Region region;
    for (size_t i = 0; i < outer; ++i) {
      region.dimensions.push_back({from[i], to_steps[i], from_steps[i]});
    }
    int64_t rest = number;
    std::vector<int64_t> offset(list.size());
    for (size_t i = list.size(); i-- > 0;) {
      offset[i] = rest % list[i].size;
      rest /= list[i].size;
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const Slice part = inside(list[i], offset[i], from[outer + i]);
      region.to += offset[i] * to_steps[size_at + i] + part.first * to_steps[count_at + i];
      region.from += (list[i].first + offset[i] * list[i].dilation + part.first * list[i].stride) *
                     from_steps[outer + i];
      region.dimensions.push_back(
          {part.count, to_steps[count_at + i], list[i].stride * from_steps[outer + i]});
    }
    copies.push_back(std::move(region));
  }
  return regions({x}, std::move(to), std::move(copies), fill);
}

}  // namespace neuron::graph
