// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/value_builder.h"

#include <algorithm>
#include <numeric>

#include "tools/compiler/graph/interpreter.h"

namespace neuron::graph {
namespace {

// Functions that the C library computes take the time of so many additions.
constexpr int64_t kLibraryFunction = 16;

bool is_library_function(const Node& node) {
  const Function f = node.function;
  return node.kind == Kind::kMap &&
         (f == Function::kExp || f == Function::kLog ||
          (f >= Function::kSin && f <= Function::kSoftplus) || f == Function::kModulo ||
          f == Function::kRemainder || f == Function::kPower);
}

Node constant_node(Shape shape, std::shared_ptr<const Tensor> elements) {
  Node node;
  node.kind = Kind::kConstant;
  node.type = elements->type;
  node.shape = std::move(shape);
  node.constant = std::move(elements);
  return node;
}

// The work of computing the node, in elements touched.
int64_t work_of(const Node& node) {
  if (node.kind == Kind::kProduct || node.kind == Kind::kReduce) {
    return elements_of({node.batch, node.rows, node.depth, node.columns});
  }
  int64_t work = elements_of(node.shape) * (is_library_function(node) ? kLibraryFunction : 1);
  for (const Region& region : node.regions) {
    int64_t count = 1;
    for (const Region::Dimension& d : region.dimensions) count *= d.size;
    work += count;
  }
  return work;
}

// Dimensions that continue each other on both sides become one; those of size 1 go.
std::vector<Region::Dimension> merged(const std::vector<Region::Dimension>& dimensions) {
  std::vector<Region::Dimension> list;
  for (const Region::Dimension& next : dimensions) {
    if (next.size == 1) continue;
    if (!list.empty() && list.back().to_step == next.size * next.to_step &&
        list.back().from_step == next.size * next.from_step) {
      list.back() = {list.back().size * next.size, next.to_step, next.from_step};
    } else {
      list.push_back(next);
    }
  }
  return list;
}

// Whether the elements from `first` on, `steps` apart, all lie in an array of `count`.
template <class Step>
bool lies_within(int64_t first, const Region& region, int64_t count, const Step& step) {
  __int128 least = first, most = first;
  for (const Region::Dimension& d : region.dimensions) {
    const __int128 reach = static_cast<__int128>(d.size - 1) * step(d);
    (reach < 0 ? least : most) += reach;
  }
  return least >= 0 && most < count;
}

// What a map computes of numbers of the type; operands of comparisons and selections may have any.
bool has_form(Function function, Type type) {
  switch (function) {
    case Function::kNot:
    case Function::kAnd:
    case Function::kOr:
    case Function::kXor:
    case Function::kShiftLeft:
    case Function::kShiftRight:
      return !is_real(type);
    case Function::kExp:
    case Function::kLog:
    case Function::kSqrt:
      return is_real(type);
    default:
      return is_real(type) || function < Function::kSin || function > Function::kSoftplus;
  }
}

}  // namespace

ValueBuilder::ValueBuilder(std::string name, const Limits& limits) : limits_(limits) {
  graph_.name = std::move(name);
}

Value ValueBuilder::refuse(std::string sentence) {
  if (problem_.empty()) problem_ = std::move(sentence);
  return kNone;
}

bool ValueBuilder::usable(std::initializer_list<Value> values) {
  return std::all_of(values.begin(), values.end(), [](Value value) { return value >= 0; });
}

const Shape& ValueBuilder::shape(Value value) const {
  static const Shape kScalar;
  return value < 0 ? kScalar : graph_.nodes[static_cast<size_t>(value)].shape;
}

Type ValueBuilder::type(Value value) const {
  return value < 0 ? Type::kF32 : graph_.nodes[static_cast<size_t>(value)].type;
}

int64_t ValueBuilder::axis_of(int64_t rank, int64_t number) {
  if (number >= -rank && number < rank) return number < 0 ? number + rank : number;
  fail("axis {} of {} dimensions", number, rank);
  return 0;
}

int64_t ValueBuilder::size(Value value, int64_t axis) {
  const Shape& sizes = shape(value);
  if (axis >= 0 && axis < static_cast<int64_t>(sizes.size())) {
    return sizes[static_cast<size_t>(axis)];
  }
  fail("dimension {} of an array of {}", axis, shape_text(sizes));
  return 1;
}

const Tensor* ValueBuilder::constant_of(Value value) const {
  return value < 0 ? nullptr : graph_.nodes[static_cast<size_t>(value)].constant.get();
}

bool ValueBuilder::allowed(const Shape& shape) {
  if (shape.size() > kMostDimensions) {
    fail("an array of {} dimensions; at most {} are supported", shape.size(), kMostDimensions);
    return false;
  }
  int64_t count = 1;
  for (const int64_t size : shape) {
    // A dimension of 0 does not make the others harmless.
    const int64_t factor = std::max<int64_t>(1, size);
    if (size < 0 || count > limits_.elements / factor) {
      fail("an array of {} is not possible: at most {} elements are", shape_text(shape),
           limits_.elements);
      return false;
    }
    count *= factor;
  }
  return true;
}

bool ValueBuilder::listable(int64_t count) {
  constexpr int64_t kMost = 1 << 24;
  if (count >= 0 && count <= kMost) return ok();
  fail("{} places one by one; at most {} are supported", count, kMost);
  return false;
}

namespace {

// A number for each row, all along it: what instructions take as it is. As an array it would be
// another constant of the program.
bool repeats_numbers(const Node& node) {
  constexpr int64_t kShortestRow = 32;
  if (node.kind != Kind::kMove || node.regions.size() != 1) return false;
  const auto& d = node.regions[0].dimensions;
  if (d.size() < 2 || d.size() > 3 || node.regions[0].from != 0) return false;
  return d.back().from_step == 0 && d.back().size >= kShortestRow &&
         d[d.size() - 2].from_step == 1 && (d.size() == 2 || d[0].from_step == 0);
}

constexpr int64_t kFewRepeats = 1024;

}  // namespace

Value ValueBuilder::append(Node node) {
  if (!ok()) return kNone;
  if (!allowed(node.shape)) return kNone;
  const int64_t count = elements_of(node.shape);
  nodes_ += 1 + static_cast<int64_t>(node.regions.size() / 16);
  if (nodes_ > limits_.nodes) return fail("the graph has over {} nodes", limits_.nodes);
  node.origin = origin_;
  // Other ranks may have other constants, and kernels are not computed here.
  if (node.kind != Kind::kInput && node.kind != Kind::kConstant && node.kind != Kind::kExchange &&
      node.kind != Kind::kKernel) {
    std::vector<const Tensor*> operands;
    int64_t largest = limits_.folded;
    for (const Value operand : node.operands) {
      operands.push_back(constant_of(operand));
      if (operands.back() != nullptr) largest = std::max(largest, operands.back()->elements());
    }
    const bool known = std::all_of(operands.begin(), operands.end(),
                                   [](const Tensor* tensor) { return tensor != nullptr; });
    const int64_t work = work_of(node);
    const bool stays = keeps_repeats_ && count > kFewRepeats && repeats_numbers(node);
    if (known && renames(node, graph_)) {  // weights of another shape are not copied
      return append(
          constant_node(node.shape, graph_.nodes[static_cast<size_t>(node.operands[0])].constant));
    }
    if (known && !stays && count <= largest && work <= limits_.work - work_ &&
        count <= limits_.constants - folded_) {
      work_ += work;
      folded_ += count;
      return append(
          constant_node(node.shape, std::make_shared<const Tensor>(evaluate_node(node, operands))));
    }
  }
  graph_.nodes.push_back(std::move(node));
  return static_cast<Value>(graph_.nodes.size() - 1);
}

Value ValueBuilder::input(const std::string& name, Type type, Shape shape) {
  Node node;
  node.kind = Kind::kInput;
  node.type = type;
  node.shape = std::move(shape);
  node.name = name;
  const Value value = append(std::move(node));
  if (value >= 0) graph_.inputs.push_back(value);
  return value;
}

Value ValueBuilder::constant(Tensor tensor) {
  if (!ok()) return kNone;
  constants_ += tensor.elements();
  if (constants_ <= limits_.constants) return weights(std::move(tensor));
  return fail("constants that are computed while compiling have over {} elements together",
              limits_.constants);
}

Value ValueBuilder::weights(Tensor tensor) {
  auto shared = std::make_shared<const Tensor>(std::move(tensor));
  return append(constant_node(shared->shape, shared));
}

Value ValueBuilder::integers(std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return constant(Tensor::of_integers(Type::kI64, {count}, std::move(values)));
}

bool ValueBuilder::broadcast(Shape& shape, const Shape& other) {
  if (other.size() > shape.size()) shape.insert(shape.begin(), other.size() - shape.size(), 1);
  for (size_t i = 1; i <= other.size(); ++i) {
    int64_t& mine = shape[shape.size() - i];
    const int64_t theirs = other[other.size() - i];
    if (mine != theirs && mine != 1 && theirs != 1) return false;
    if (mine == 1) mine = theirs;
  }
  return true;
}

Value ValueBuilder::joined_map(Function, Value, Value) { return kNone; }

Value ValueBuilder::map(Function function, Value x) {
  if (!usable({x})) return kNone;
  if (!has_form(function, type(x))) {
    return fail("{} of {}; cast it before", function_name(function), type_name(type(x)));
  }
  if (const Value value = joined_map(function, x, kNone); value >= 0 || !ok()) return value;
  Node node;
  node.kind = Kind::kMap;
  node.function = function;
  node.type = gives_bool(function) ? Type::kBool : type(x);
  node.shape = shape(x);
  node.operands = {x};
  return append(std::move(node));
}

Value ValueBuilder::map(Function function, Value a, Value b) {
  if (!usable({a, b})) return kNone;
  Node node;
  node.kind = Kind::kMap;
  node.function = function;
  node.type = gives_bool(function) ? Type::kBool : type(a);
  node.shape = shape(a);
  if (type(a) != type(b)) {
    return fail("{} of {} and {}", function_name(function), type_name(type(a)), type_name(type(b)));
  }
  if (!has_form(function, type(a))) {
    return fail("{} of {}; cast both before", function_name(function), type_name(type(a)));
  }
  if (!broadcast(node.shape, shape(b))) {
    return fail("{} of {} and {}, which cannot be broadcast", function_name(function),
                shape_text(shape(a)), shape_text(shape(b)));
  }
  if (const Value value = joined_map(function, a, b); value >= 0 || !ok()) return value;
  keeps_repeats_ = constant_of(a) == nullptr || constant_of(b) == nullptr;
  node.operands = {expand(a, node.shape), expand(b, node.shape)};
  keeps_repeats_ = false;
  if (!usable({node.operands[0], node.operands[1]})) return kNone;
  return append(std::move(node));
}

Value ValueBuilder::select(Value condition, Value yes, Value no) {
  if (!usable({condition, yes, no})) return kNone;
  if (type(yes) != type(no) || type(condition) != Type::kBool) {
    return fail("select of {} and {} by {}", type_name(type(yes)), type_name(type(no)),
                type_name(type(condition)));
  }
  Node node;
  node.kind = Kind::kMap;
  node.function = Function::kSelect;
  node.type = type(yes);
  node.shape = shape(condition);
  if (!broadcast(node.shape, shape(yes)) || !broadcast(node.shape, shape(no))) {
    return fail("select of {} and {} by {}, which cannot be broadcast", shape_text(shape(yes)),
                shape_text(shape(no)), shape_text(shape(condition)));
  }
  for (const Value operand : {condition, yes, no}) {
    node.operands.push_back(expand(operand, node.shape));
    if (node.operands.back() < 0) return kNone;
  }
  return append(std::move(node));
}

Value ValueBuilder::cast(Value x, Type to) {
  if (!usable({x}) || type(x) == to) return x;
  Node node;
  node.kind = Kind::kMap;
  node.function = Function::kCast;
  node.type = to;
  node.shape = shape(x);
  node.operands = {x};
  return append(std::move(node));
}

Value ValueBuilder::regions(const std::vector<Value>& operands, Shape shape,
                            std::vector<Region> list, double fill) {
  if (operands.empty()) return fail("an array of nothing");
  for (const Value operand : operands) {
    if (!usable({operand})) return kNone;
    if (type(operand) != type(operands[0])) {
      return fail("{} and {} in one array", type_name(type(operands[0])), type_name(type(operand)));
    }
  }
  if (!allowed(shape)) return kNone;
  Node node;
  node.kind = Kind::kMove;
  node.type = type(operands[0]);
  node.shape = std::move(shape);
  node.operands = operands;
  node.fill = fill;
  for (Region& region : list) {
    const bool empty = std::any_of(region.dimensions.begin(), region.dimensions.end(),
                                   [](const Region::Dimension& d) { return d.size == 0; });
    if (empty) continue;
    // Offsets come from the numbers of a model; nothing may be read or written beside the arrays.
    const bool inside =
        region.operand < operands.size() &&
        lies_within(region.to, region, elements_of(node.shape),
                    [](const Region::Dimension& d) { return d.to_step; }) &&
        lies_within(region.from, region, elements_of(this->shape(operands[region.operand])),
                    [](const Region::Dimension& d) { return d.from_step; });
    if (!inside) {
      return fail("elements outside of an array that becomes {}", shape_text(node.shape));
    }
    region.dimensions = merged(region.dimensions);
    node.regions.push_back(std::move(region));
  }
  if (!node.operands.empty() && renames(node, graph_)) {
    // A chain of names is one name, so nothing has to follow it step by step.
    const auto made = [&] { return &graph_.nodes[static_cast<size_t>(node.operands[0])]; };
    while (renames(*made(), graph_)) node.operands[0] = made()->operands[0];
    if (made()->shape == node.shape) return node.operands[0];
  }
  return append(std::move(node));
}

Value ValueBuilder::expand(Value x, const Shape& to) {
  if (!usable({x}) || shape(x) == to) return x;
  if (!allowed(to)) return kNone;
  const Shape from = shape(x);
  Shape all = to;
  if (from.size() > to.size() || !broadcast(all, from) || all != to) {
    return fail("{} cannot be broadcast to {}", shape_text(from), shape_text(to));
  }
  const Shape to_steps = strides_of(to), from_steps = strides_of(from);
  const size_t added = to.size() - from.size();
  Region region;
  for (size_t i = 0; i < to.size(); ++i) {
    const bool repeats = i < added || from[i - added] != to[i];
    region.dimensions.push_back({to[i], to_steps[i], repeats ? 0 : from_steps[i - added]});
  }
  return regions({x}, to, {std::move(region)});
}

void ValueBuilder::output(const std::string& name, Value value) {
  if (value >= 0) graph_.outputs.push_back({name, value});
}

}  // namespace neuron::graph
