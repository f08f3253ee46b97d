// SPDX-License-Identifier: Apache-2.0
// What Builder has beyond maps and moves: reductions, products, rows by number.
#include <algorithm>

#include "tools/compiler/graph/builder.h"

namespace neuron::graph {
namespace {

int64_t part(const Shape& shape, size_t first, size_t end) {
  int64_t count = 1;
  for (size_t i = first; i < end; ++i) count *= shape[i];
  return count;
}

}  // namespace

Value Builder::reduce(Function function, Value x, std::vector<int64_t> axes, bool keep) {
  if (!usable({x})) return kNone;
  const Shape from = shape(x);
  std::vector<bool> folded(from.size(), false);
  for (int64_t& number : axes) {
    number = axis(x, number);
    if (!ok()) return kNone;
    folded[at(number)] = true;
  }
  if (axes.empty()) return x;
  Shape kept, short_shape;
  std::vector<int64_t> order, last;
  for (size_t i = 0; i < from.size(); ++i) {
    kept.push_back(folded[i] ? 1 : from[i]);
    if (!folded[i]) short_shape.push_back(from[i]);
    (folded[i] ? last : order).push_back(static_cast<int64_t>(i));
  }
  // Neighbouring axes are folded where they are; others are brought together first.
  const auto first = at(last[0]);
  const size_t end = first + last.size();
  Node node;
  node.kind = Kind::kReduce;
  node.function = function;
  node.type = type(x);
  if (at(last.back()) + 1 == end) {
    node.rows = part(from, 0, first);
    node.depth = part(from, first, end);
    node.columns = part(from, end, from.size());
    node.operands = {x};
  } else {
    order.insert(order.end(), last.begin(), last.end());
    node.operands = {transpose(x, order)};
    node.rows = elements_of(short_shape);
    node.depth = elements_of(from) / std::max<int64_t>(1, node.rows);
  }
  if (node.depth == 0 || elements_of(from) == 0) {
    return fail("nothing to fold in an array of {}", shape_text(from));
  }
  node.shape = keep ? kept : short_shape;
  if (!usable({node.operands[0]})) return kNone;
  if (node.depth == 1) return reshape(node.operands[0], node.shape);
  return append(std::move(node));
}

Value Builder::best_index(Value x, int64_t number, bool largest, bool last) {
  if (!usable({x})) return kNone;
  number = axis(x, number);
  if (!ok()) return kNone;
  const Value best = reduce(largest ? Function::kMaximum : Function::kMinimum, x, {number}, true);
  const Value places = counting(Type::kI32, shape(x), number);
  const int64_t count = size(x, number);
  // Where one element is NaN, that is the best, and equal to nothing.
  Value hit = map(Function::kEqual, x, best);
  if (is_real(type(x))) hit = map(Function::kOr, hit, map(Function::kIsNan, x));
  const Value found =
      select(hit, places, scalar(Type::kI32, last ? -1.0 : static_cast<double>(count)));
  return cast(reduce(last ? Function::kMaximum : Function::kMinimum, found, {number}, true),
              Type::kI64);
}

Value Builder::batched_product(Value a, Value b, bool turned) {
  if (!usable({a, b})) return kNone;
  const bool known = constant_of(a) != nullptr && constant_of(b) != nullptr;
  // The interpreter computes constants with all bits.
  const bool plain = is_real(type(a)) || type(a) != type(b) || known || !fit(a, b, turned);
  if (plain) return plain_product(a, b, turned);
  const Type whole = type(a);
  const Value right = cast(b, Type::kI32);
  return cast(whole_product(cast(a, Type::kI32), right, turned), whole);
}

bool Builder::fit(Value a, Value b, bool turned) const {
  const Shape &left = shape(a), &right = shape(b);
  return left.size() == 3 && right.size() == 3 && left[0] == right[0] &&
         left[turned ? 1 : 2] == right[1];
}

Value Builder::plain_product(Value a, Value b, bool turned) {
  if (!usable({a, b})) return kNone;
  const Shape left = shape(a), right = shape(b);
  if (!fit(a, b, turned) || type(a) != type(b)) {
    return fail("product of {} {} and {} {}", type_name(type(a)), shape_text(left),
                type_name(type(b)), shape_text(right));
  }
  Node node;
  node.kind = Kind::kProduct;
  node.type = type(a);
  node.turned = turned;
  node.batch = left[0];
  node.rows = left[turned ? 2 : 1];
  node.depth = right[1];
  node.columns = right[2];
  node.shape = {node.batch, node.rows, node.columns};
  node.operands = {a, b};
  if (node.depth == 0) return fail("product of {} and {}", shape_text(left), shape_text(right));
  return append(std::move(node));
}

Value Builder::grouped_product(Value weights, Value columns, int64_t batch) {
  if (!usable({weights, columns})) return kNone;
  const Shape from = shape(weights);
  if (from.size() != 3) return fail("weights of {}", shape_text(from));
  Value all =
      expand(reshape(weights, {1, from[0], from[1], from[2]}), {batch, from[0], from[1], from[2]});
  all = reshape(all, {batch * from[0], from[1], from[2]});
  return batched_product(all, columns, true);
}

Value Builder::product(Value a, Value b) {
  if (!usable({a, b})) return kNone;
  Shape left = shape(a), right = shape(b);
  if (left.empty() || right.empty()) return fail("product of a scalar");
  const bool row = left.size() == 1, column = right.size() == 1;
  if (row) left.insert(left.begin(), 1);
  if (column) right.push_back(1);
  const int64_t rows = left[left.size() - 2], depth = left.back(), columns = right.back();
  if (right[right.size() - 2] != depth) {
    return fail("product of {} and {}: found rows of {} and columns of {}, expected equal lengths",
                shape_text(shape(a)), shape_text(shape(b)), depth, right[right.size() - 2]);
  }
  Shape batch(left.begin(), left.end() - 2);
  const Shape other(right.begin(), right.end() - 2);
  if (!broadcast(batch, other)) {
    return fail("product of {} and {}, which cannot be broadcast", shape_text(shape(a)),
                shape_text(shape(b)));
  }
  Shape full = batch;
  full.insert(full.end(), {rows, columns});
  if (!allowed(full)) return kNone;
  Value result = kNone;
  if (elements_of(other) == 1 && elements_of(batch) > 0) {
    // One right operand for all: the batch is more rows.
    const Value matrix = reshape(b, {1, depth, columns});
    result = batched_product(reshape(a, {1, elements_of(batch) * rows, depth}), matrix, false);
  } else {
    const auto whole = [&](Value x, const Shape& from, int64_t r, int64_t c) {
      Shape all = batch;
      all.push_back(r);
      all.push_back(c);
      return reshape(expand(reshape(x, from), all), {elements_of(batch), r, c});
    };
    const Value matrices = whole(b, right, depth, columns);
    result = batched_product(whole(a, left, rows, depth), matrices, false);
  }
  if (!row) batch.push_back(rows);
  if (!column) batch.push_back(columns);
  return reshape(result, batch);
}

Value Builder::gather(Value data, Value numbers) {
  if (!usable({data, numbers})) return kNone;
  if (rank(data) != 2 || rank(numbers) != 1 || is_real(type(numbers))) {
    return fail("rows of {} by {}", shape_text(shape(data)), shape_text(shape(numbers)));
  }
  Node node;
  node.kind = Kind::kGather;
  node.type = type(data);
  node.rows = shape(numbers)[0];
  node.depth = shape(data)[0];
  node.columns = shape(data)[1];
  node.shape = {node.rows, node.columns};
  node.operands = {data, numbers};
  return append(std::move(node));
}

Value Builder::scatter(Value data, Value numbers, Value rows, std::optional<Function> combine) {
  if (!usable({data, numbers, rows})) return kNone;
  if (rank(data) != 2 || rank(numbers) != 1 || is_real(type(numbers)) || type(data) != type(rows) ||
      shape(rows) != Shape{shape(numbers)[0], shape(data)[1]}) {
    return fail("rows of {} replaced by {} where {} says", shape_text(shape(data)),
                shape_text(shape(rows)), shape_text(shape(numbers)));
  }
  Node node;
  node.kind = Kind::kScatter;
  node.type = type(data);
  node.function = combine.value_or(Function::kAdd);
  node.replaces = !combine;
  node.rows = shape(numbers)[0];
  node.depth = shape(data)[0];
  node.columns = shape(data)[1];
  node.shape = shape(data);
  node.operands = {data, numbers, rows};
  return append(std::move(node));
}

Value Builder::exchange(Value x, Exchange exchange, Function combine) {
  if (!usable({x})) return kNone;
  const std::string problem = exchange_problem(exchange);
  if (!problem.empty()) return fail("{}", problem);
  if (!exchange.groups.empty()) {
    exchange.members = static_cast<int64_t>(exchange.groups[0].size());
  }
  Node node;
  node.kind = Kind::kExchange;
  node.type = type(x);
  node.function = combine;
  node.shape = shape(x);
  const bool parts =
      exchange.kind == Exchange::Kind::kReduceScatter || exchange.kind == Exchange::Kind::kAllToAll;
  if (exchange.members < 1 || exchange.members > kMostRanks ||
      (parts && (node.shape.empty() || node.shape[0] != exchange.members))) {
    return fail("{} of {} among {} ranks", exchange_name(exchange.kind), shape_text(node.shape),
                exchange.members);
  }
  if (exchange.kind == Exchange::Kind::kReduceScatter) node.shape.erase(node.shape.begin());
  if (exchange.kind == Exchange::Kind::kAllGather) {
    node.shape.insert(node.shape.begin(), exchange.members);
  }
  node.operands = {x};
  node.exchange = std::make_shared<const Exchange>(std::move(exchange));
  return append(std::move(node));
}

std::vector<Value> Builder::kernel(const std::string& trace, const std::vector<Value>& operands,
                                   const std::vector<std::pair<Type, Shape>>& results) {
  const auto text = std::make_shared<const std::string>(trace);
  std::vector<Value> values;
  for (const auto& [kind, shape] : results) {
    Node node;
    node.kind = Kind::kKernel;
    node.type = kind;
    node.shape = shape;
    node.operands = operands;
    node.trace = text;
    node.result = static_cast<int64_t>(values.size());
    values.push_back(append(std::move(node)));
  }
  return values;
}

Value Builder::take(Value x, Value numbers, int64_t number) {
  if (!usable({x, numbers})) return kNone;
  number = axis(x, number);
  if (!ok()) return kNone;
  const int64_t count = size(x, number);
  const Shape from = shape(x), places = shape(numbers);
  Shape to(from.begin(), from.begin() + number);
  to.insert(to.end(), places.begin(), places.end());
  to.insert(to.end(), from.begin() + number + 1, from.end());
  if (const Tensor* known = constant_of(numbers)) {
    std::vector<int64_t> list;
    for (size_t i = 0; i < static_cast<size_t>(known->elements()); ++i) {
      const int64_t place = known->integer(i);
      list.push_back(place < 0 ? place + count : place);
      if (list.back() < 0) return fail("element {} of a dimension of {}", place, count);
    }
    return reshape(pick(x, number, list), to);
  }
  std::vector<int64_t> order = {number};
  for (int64_t i = 0; i < rank(x); ++i) {
    if (i != number) order.push_back(i);
  }
  const int64_t width = elements_of(from) / std::max<int64_t>(1, count);
  const Value table = reshape(transpose(x, order), {count, width});
  Value wanted = cast(reshape(numbers, {elements_of(places)}), Type::kI64);
  const Value from_end = map(Function::kAdd, wanted, static_cast<double>(count));
  wanted = select(map(Function::kLess, wanted, 0.0), from_end, wanted);
  // [places, axes before, axes behind] to [axes before, places, axes behind]
  Shape found = places;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i != at(number)) found.push_back(from[i]);
  }
  std::vector<int64_t> back;
  const auto given = static_cast<int64_t>(places.size());
  for (int64_t i = 0; i < number; ++i) back.push_back(given + i);
  for (int64_t i = 0; i < given; ++i) back.push_back(i);
  for (auto i = number + given; i < static_cast<int64_t>(found.size()); ++i) back.push_back(i);
  return transpose(reshape(gather(table, wanted), found), back);
}

}  // namespace neuron::graph
