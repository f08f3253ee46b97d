// SPDX-License-Identifier: Apache-2.0
// Lists of tensors and optional values: the importer keeps them, the graph never sees them.
#include <algorithm>

#include "tools/compiler/onnx/operators.h"

namespace neuron::onnx {
namespace {

std::vector<Item> elements(Call& c, size_t number) {
  const Item& item = c.item(number);
  if (item.kind == Item::Kind::kSequence) return item.elements;
  c.b.fail("input {} is no sequence", number);
  return {};
}

// A place in a sequence of `count`; negative ones from its end.
size_t place_of(Call& c, size_t number, size_t count) {
  const std::vector<int64_t> given = c.known_integers(number);
  if (given.size() != 1) {
    c.b.fail("{} numbers of an element, expected one", given.size());
    return 0;
  }
  const auto size = static_cast<int64_t>(count);
  const int64_t place = given[0] < 0 ? given[0] + size : given[0];
  if (place >= 0 && place < size) return static_cast<size_t>(place);
  c.b.fail("element {} of a sequence of {}", given[0], count);
  return 0;
}

void construct(Call& c) {
  std::vector<Item> list;
  for (size_t i = 0; i < c.count(); ++i) list.push_back(Item::of(c.in(i)));
  c.out(Item::sequence(std::move(list)));
}

void empty(Call& c) { c.out(Item::sequence({})); }

void insert(Call& c) {
  std::vector<Item> list = elements(c, 0);
  const auto count = static_cast<int64_t>(list.size());
  // One behind the last is allowed; negative places are from the end, where -1 is the last.
  const std::vector<int64_t> given = c.has(2) ? c.known_integers(2) : std::vector<int64_t>{count};
  if (given.size() != 1 || given[0] < -count || given[0] > count) {
    c.b.fail("a place in a sequence of {}", count);
    return;
  }
  const int64_t place = given[0] < 0 ? given[0] + count : given[0];
  list.insert(list.begin() + place, Item::of(c.in(1)));
  c.out(Item::sequence(std::move(list)));
}

void erase(Call& c) {
  std::vector<Item> list = elements(c, 0);
  if (list.empty()) c.b.fail("nothing to erase");
  const size_t place = c.has(1) ? place_of(c, 1, list.size()) : list.size() - 1;
  if (!c.b.ok()) return;
  list.erase(list.begin() + static_cast<ptrdiff_t>(place));
  c.out(Item::sequence(std::move(list)));
}

void element(Call& c) {
  const std::vector<Item> list = elements(c, 0);
  const size_t place = place_of(c, 1, list.size());
  if (c.b.ok()) c.out(list[place]);
}

void length(Call& c) {
  const auto count = static_cast<int64_t>(elements(c, 0).size());
  c.out(c.b.constant(Tensor::of_integers(Type::kI64, {}, {count})));
}

void split(Call& c) {
  const Value x = c.in(0);
  const int64_t axis = c.b.axis(x, c.integer("axis", 0));
  const int64_t size = c.b.size(x, axis);
  const bool given = c.has(1);
  std::vector<int64_t> parts = given ? c.known_integers(1) : std::vector<int64_t>{1};
  if (!c.b.ok()) return;
  if (!given || c.shape(1).empty()) {
    // All parts have this size, but for the last.
    constexpr int64_t kMostParts = 1 << 16;
    const int64_t each = parts.empty() ? 0 : parts[0];
    parts.clear();
    if (each < 1 || size / std::max<int64_t>(1, each) >= kMostParts) {
      c.b.fail("parts of {} of {} elements; fewer than {} parts are supported", each, size,
               kMostParts);
      return;
    }
    for (int64_t done = 0; done < size; done += std::min(each, size - done)) {
      parts.push_back(std::min(each, size - done));
    }
  }
  std::vector<Item> list;
  int64_t first = 0;
  const bool keeps = given || c.integer("keepdims", 1) != 0;
  for (const int64_t part : parts) {
    Value value = c.b.slice_axis(x, axis, {first, part, 1});
    if (!c.b.ok()) return;
    first += part;
    if (!keeps) {
      Shape shape = c.b.shape(value);
      shape.erase(shape.begin() + axis);
      value = c.b.reshape(value, shape);
    }
    list.push_back(Item::of(value));
  }
  if (first != size) c.b.fail("parts of {} elements of a dimension of {}", first, size);
  c.out(Item::sequence(std::move(list)));
}

void join(Call& c) {
  std::vector<Value> values;
  const bool stacks = c.integer("new_axis", 0) != 0;
  for (const Item& item : elements(c, 0)) values.push_back(item.value);
  if (values.empty() || values[0] < 0) {
    c.b.fail("nothing to join");
    return;
  }
  const int64_t rank = c.b.rank(values[0]) + (stacks ? 1 : 0);
  const int64_t axis = c.b.axis_of(rank, c.integer("axis", 0));
  for (Value& value : values) {
    Shape shape = c.b.shape(value);
    if (!stacks || axis > static_cast<int64_t>(shape.size())) continue;
    shape.insert(shape.begin() + axis, 1);
    value = c.b.reshape(value, shape);
  }
  c.out(c.b.concat(values, axis));
}

void map(Call& c) {
  const size_t rounds = elements(c, 0).size();
  std::vector<std::vector<Item>> lists(c.outputs());
  for (size_t round = 0; round < rounds && c.b.ok(); ++round) {
    std::vector<Item> inputs;
    for (size_t i = 0; i < c.count(); ++i) {
      const Item& item = c.item(i);
      const bool listed = item.kind == Item::Kind::kSequence;
      if (listed && round >= item.elements.size()) {
        c.b.fail("its sequences have different lengths");
        return;
      }
      inputs.push_back(listed ? item.elements[round] : item);
    }
    const std::vector<Item> outputs = c.body("body", inputs);
    for (size_t i = 0; i < lists.size() && i < outputs.size(); ++i) {
      // Lists of lists could double in each node.
      if (outputs[i].kind != Item::Kind::kTensor) c.b.fail("output {} of its body is no tensor", i);
      lists[i].push_back(Item::of(outputs[i].value));
    }
  }
  for (std::vector<Item>& list : lists) c.out(Item::sequence(std::move(list)));
}

void optional(Call& c) { c.out(c.has(0) ? c.item(0) : Item()); }

void optional_element(Call& c) {
  if (!c.has(0)) c.b.fail("the optional value is absent");
  c.out(c.item(0));
}

void optional_has_element(Call& c) { c.out(c.b.scalar(Type::kBool, c.has(0) ? 1 : 0)); }

constexpr Operator kSequenceOperators[] = {
    {"ConcatFromSequence", join},
    {"Optional", optional},
    {"OptionalGetElement", optional_element},
    {"OptionalHasElement", optional_has_element},
    {"SequenceAt", element},
    {"SequenceConstruct", construct},
    {"SequenceEmpty", empty},
    {"SequenceErase", erase},
    {"SequenceInsert", insert},
    {"SequenceLength", length},
    {"SequenceMap", map},
    {"SplitToSequence", split},
};

}  // namespace

std::span<const Operator> sequence_operators() { return kSequenceOperators; }

}  // namespace neuron::onnx
