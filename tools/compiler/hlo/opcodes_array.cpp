// SPDX-License-Identifier: Apache-2.0
// Opcodes on whole arrays: moves, reductions, products, tuples, computations that are called.
#include <algorithm>

#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

constexpr int64_t kMostRounds = 4096;

Values constant(Step& s) { return {read_literal(s.b, s.instruction.literal())}; }

Values same(Step& s) { return s.operands.empty() ? Values{s.in(0)} : s.operands[0]; }

Values tuple(Step& s) {
  Values all;
  for (size_t i = 0; i < s.count(); ++i) all.push_back(s.in(i));
  return all;
}

Values tuple_element(Step& s) {
  const int64_t number = s.instruction.tuple_index();
  if (s.operands.empty() || number < 0 || at(number) >= s.operands[0].size()) {
    return {s.b.fail("element {} of a tuple", number)};
  }
  return {s.operands[0][at(number)]};
}

Values reshape(Step& s) { return {s.b.reshape(s.in(0), s.shape())}; }

Values transpose(Step& s) { return {s.b.transpose(s.in(0), s.dimensions())}; }

// Dimension i of the operand is dimension dimensions[i] of the result.
Values broadcast(Step& s) {
  const Value x = s.in(0);
  const Shape from = s.b.shape(x), to = s.shape();
  const std::vector<int64_t> places = s.dimensions();
  Shape spread(to.size(), 1);
  if (places.size() != from.size() || !std::is_sorted(places.begin(), places.end())) {
    return {s.b.fail("{} dimensions of {}", places.size(), graph::shape_text(from))};
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0 || at(places[i]) >= to.size()) return {s.b.fail("dimension {}", places[i])};
    spread[at(places[i])] = from[i];
  }
  return {s.b.expand(s.b.reshape(x, spread), to)};
}

Values slice(Step& s) {
  std::vector<graph::Slice> parts;
  for (const auto& d : s.instruction.slice_dimensions()) {
    const int64_t step = std::max<int64_t>(1, d.stride());
    if (d.start() < 0 || d.limit() < d.start()) {
      return {s.b.fail("elements {} to {}", d.start(), d.limit())};
    }
    const int64_t length = d.limit() - d.start();
    parts.push_back({d.start(), length / step + (length % step != 0 ? 1 : 0), step});
  }
  if (static_cast<int64_t>(parts.size()) != s.b.rank(s.in(0))) {
    return {s.b.fail("{} slices", parts.size())};
  }
  return {s.b.slice(s.in(0), parts)};
}

Values concatenate(Step& s) {
  Values all;
  for (size_t i = 0; i < s.count(); ++i) all.push_back(s.in(i));
  const std::vector<int64_t> axes = s.dimensions();
  return {axes.size() == 1 ? s.b.concat(all, axes[0]) : s.b.fail("{} axes", axes.size())};
}

// Elements are spread by the padding between them, then cut or padded at the edges.
Values pad(Step& s) {
  const Value x = s.in(0);
  const Tensor* fill = s.b.constant_of(s.in(1));
  const auto& dimensions = s.instruction.padding_config().dimensions();
  const Shape from = s.b.shape(x);
  if (static_cast<size_t>(dimensions.size()) != from.size()) {
    return {s.b.fail("padding of {} dimensions", dimensions.size())};
  }
  if (fill == nullptr || fill->elements() != 1) {
    return {s.b.fail("padding with a value that is only known when it runs")};
  }
  Shape spread = from;
  std::vector<int64_t> before, after;
  constexpr int64_t kMost = 1 << 24;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto& d = dimensions.Get(static_cast<int>(i));
    const auto [least, most] = std::minmax({d.edge_padding_low(), d.edge_padding_high()});
    if (d.interior_padding() < 0 || d.interior_padding() > kMost || least < -kMost ||
        most > kMost) {
      return {s.b.fail("padding of over {} elements", kMost)};
    }
    spread[i] += std::max<int64_t>(0, from[i] - 1) * d.interior_padding();
    before.push_back(d.edge_padding_low());
    after.push_back(d.edge_padding_high());
  }
  if (!s.b.allowed(spread)) return {graph::kNone};
  const double value = fill->real(0);
  Value wide = x;
  if (spread != from) {
    const Shape to_steps = graph::strides_of(spread), from_steps = graph::strides_of(from);
    graph::Region region;
    for (size_t i = 0; i < from.size(); ++i) {
      const int64_t gap = dimensions.Get(static_cast<int>(i)).interior_padding() + 1;
      region.dimensions.push_back({from[i], to_steps[i] * gap, from_steps[i]});
    }
    wide = s.b.regions({x}, spread, {region}, value);
  }
  return {s.b.pad(wide, before, after, value)};
}

Values reverse(Step& s) {
  const Value x = s.in(0);
  std::vector<graph::Slice> parts;
  for (const int64_t size : s.b.shape(x)) parts.push_back({0, size, 1});
  for (const int64_t axis : s.dimensions()) {
    if (axis < 0 || at(axis) >= parts.size()) return {s.b.fail("axis {}", axis)};
    parts[at(axis)] = {parts[at(axis)].count - 1, parts[at(axis)].count, -1};
  }
  return {s.b.slice(x, parts)};
}

Values iota(Step& s) {
  const auto type = type_of(s.instruction.shape().element_type());
  const std::vector<int64_t> axes = s.dimensions();
  if (!type || axes.size() != 1) return {s.b.fail("an axis of {}", axes.size())};
  return {s.b.counting(*type, s.shape(), axes[0])};
}

// The dimensions in three groups, each in order: batch, free, contracted.
struct Groups {
  std::vector<int64_t> batch, free, contracted;
  Shape sizes(const Shape& shape, const std::vector<int64_t>& group) const {
    Shape list;
    for (const int64_t d : group) list.push_back(shape[at(d)]);
    return list;
  }
};

template <class List>
bool read_groups(const Shape& shape, const List& batch, const List& contracted, Groups& g) {
  std::vector<bool> used(shape.size(), false);
  for (const auto* list : {&batch, &contracted}) {
    for (const int64_t d : *list) {
      if (d < 0 || at(d) >= shape.size() || used[at(d)]) return false;
      used[at(d)] = true;
      (list == &batch ? g.batch : g.contracted).push_back(d);
    }
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!used[i]) g.free.push_back(static_cast<int64_t>(i));
  }
  return true;
}

Values dot(Step& s) {
  const auto& numbers = s.instruction.dot_dimension_numbers();
  const auto [a, c] = s.same_type(s.in(0), s.in(1));
  if (!s.b.ok()) return {graph::kNone};
  const Shape left = s.b.shape(a), right = s.b.shape(c);
  Groups l, r;
  if (!read_groups(left, numbers.lhs_batch_dimensions(), numbers.lhs_contracting_dimensions(), l) ||
      !read_groups(right, numbers.rhs_batch_dimensions(), numbers.rhs_contracting_dimensions(),
                   r)) {
    return {s.b.fail("its dimension numbers do not fit {} and {}", graph::shape_text(left),
                     graph::shape_text(right))};
  }
  const auto order = [](std::vector<int64_t> first, const std::vector<int64_t>& second,
                        const std::vector<int64_t>& third) {
    first.insert(first.end(), second.begin(), second.end());
    first.insert(first.end(), third.begin(), third.end());
    return first;
  };
  const auto size = [](const Shape& shape) { return graph::elements_of(shape); };
  const Shape batch = l.sizes(left, l.batch);
  if (batch != r.sizes(right, r.batch) ||
      l.sizes(left, l.contracted) != r.sizes(right, r.contracted)) {
    return {s.b.fail("batches of {} and {}, and {} and {} elements of each sum, of {} and {}",
                     graph::shape_text(batch), graph::shape_text(r.sizes(right, r.batch)),
                     graph::shape_text(l.sizes(left, l.contracted)),
                     graph::shape_text(r.sizes(right, r.contracted)), graph::shape_text(left),
                     graph::shape_text(right))};
  }
  const int64_t rows = size(l.sizes(left, l.free)), columns = size(r.sizes(right, r.free));
  const int64_t depth = size(l.sizes(left, l.contracted));
  const Value x = s.b.reshape(s.b.transpose(a, order(l.batch, l.free, l.contracted)),
                              {size(batch), rows, depth});
  const Value y = s.b.reshape(s.b.transpose(c, order(r.batch, r.contracted, r.free)),
                              {size(batch), depth, columns});
  return {s.in_result_type(s.b.reshape(s.b.batched_product(x, y, false), s.shape()))};
}

Values dimension_size(Step& s) {
  const std::vector<int64_t> axes = s.dimensions();
  if (axes.size() != 1) return {s.b.fail("{} dimensions, expected one", axes.size())};
  return {s.b.constant(Tensor::of_integers(Type::kI32, {}, {s.b.size(s.in(0), axes[0])}))};
}

// The computation of numbers, for each element.
Values each_element(Step& s) {
  Values all;
  for (size_t i = 0; i < s.count(); ++i) all.push_back(s.in(i));
  if (!s.b.ok()) return {graph::kNone};
  Values results = s.run_each(s.called(0), all);
  // One that is the same for all elements is a number still.
  for (Value& result : results) result = s.b.expand(result, s.shape());
  return results;
}

Values call(Step& s) {
  if (s.count() == 1) return s.run(s.called(0), s.operands[0]);
  Values arguments;
  for (size_t i = 0; i < s.count(); ++i) arguments.push_back(s.in(i));
  return s.run(s.called(0), arguments);
}

// The truth of a constant of one element.
std::optional<int64_t> known(Step& s, Value value) {
  const Tensor* tensor = s.b.constant_of(value);
  if (tensor != nullptr && tensor->elements() == 1) return tensor->integer(0);
  return std::nullopt;
}

// The operand after the condition is that of the first branch. Both or all branches run where the
// condition is data, and its value selects.
Values conditional(Step& s) {
  const Value condition = s.in(0);
  const int count = s.instruction.called_computation_ids_size();
  if (!s.b.ok() || count < 1) return {s.b.fail("{} branches", count)};
  const auto branch = [&](int number) {
    const auto operand = static_cast<size_t>(number) + 1;
    return operand < s.count() ? s.run(s.called(number), s.operands[operand])
                               : Values{s.in(operand)};
  };
  const bool truth = s.b.type(condition) == Type::kBool;
  if (const auto number = known(s, condition)) {
    if (truth) return branch(*number != 0 ? 0 : 1);
    // Numbers without a branch take the last one.
    return branch(*number < 0 || *number >= count ? count - 1 : static_cast<int>(*number));
  }
  if (truth && count != 2) return {s.b.fail("{} branches of a truth value", count)};
  Values results = branch(count - 1);
  for (int number = count - 1; number-- > 0 && s.b.ok();) {
    const Values others = branch(number);
    if (others.size() != results.size()) {
      return {s.b.fail("branches that give {} and {} values", others.size(), results.size())};
    }
    const Value wanted =
        truth ? condition : s.b.map(Function::kEqual, condition, static_cast<double>(number));
    for (size_t i = 0; i < results.size(); ++i) {
      results[i] = s.b.select(wanted, others[i], results[i]);
    }
  }
  return results;
}

Values loop(Step& s) {
  if (s.count() != 1 || s.instruction.called_computation_ids_size() != 2) {
    return {s.b.fail("a loop of {} operands", s.count())};
  }
  Values state = s.operands[0];
  // The body is called first in the list, then the condition.
  for (int64_t round = 0; round < kMostRounds && s.b.ok(); ++round) {
    const Values condition = s.run(s.called(1), state);
    const auto goes_on = condition.size() == 1 ? known(s, condition[0]) : std::nullopt;
    if (!goes_on) return {s.b.fail("a loop whose length is only known when it runs")};
    if (*goes_on == 0) return state;
    state = s.run(s.called(0), state);
  }
  return {s.b.fail("a loop of over {} rounds", kMostRounds)};
}

// The trace of an NKI kernel, called with arrays.
Values kernel(Step& s) {
  Values operands;
  for (size_t i = 0; i < s.count(); ++i) operands.push_back(s.in(i));
  std::vector<std::pair<Type, Shape>> results;
  const auto& said = s.instruction.shape();
  const auto add = [&](const file::Form& form) {
    if (const auto type = type_of(form.element_type())) {
      results.emplace_back(*type, shape_of(form));
    } else {
      s.b.fail("a result of element type {}", element_type_text(form.element_type()));
    }
  };
  if (said.tuple_shapes().empty()) {
    add(said);
  } else {
    for (const file::Form& form : said.tuple_shapes()) add(form);
  }
  if (!s.b.ok()) return {graph::kNone};
  return s.b.kernel(s.instruction.backend_config(), operands, results);
}

constexpr Opcode kArrayOpcodes[] = {
    {"bitcast", reshape},
    {"broadcast", broadcast},
    {"call", call},
    {"concatenate", concatenate},
    {"conditional", conditional},
    {"constant", constant},
    {"copy", same},
    {"custom-call AwsNeuronCustomNativeKernel", kernel},
    {"dot", dot},
    {"get-dimension-size", dimension_size},
    {"get-tuple-element", tuple_element},
    {"iota", iota},
    {"map", each_element},
    {"optimization-barrier", same},
    {"pad", pad},
    {"reshape", reshape},
    {"reverse", reverse},
    {"slice", slice},
    {"transpose", transpose},
    {"tuple", tuple},
    {"while", loop},
};

}  // namespace

std::span<const Opcode> array_opcodes() { return kArrayOpcodes; }

}  // namespace neuron::hlo
