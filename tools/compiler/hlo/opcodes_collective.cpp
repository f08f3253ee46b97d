// SPDX-License-Identifier: Apache-2.0
// Collectives: the dimension that ranks split or join is brought in front, exchanged, and taken
// back.
#include <algorithm>

#include "tools/compiler/hlo/step.h"

namespace neuron::hlo {
namespace {

using graph::Exchange;

using Order = std::vector<int64_t>;

// The numbers from 0 on in an array of these dimensions, which then change places.
bool counted_groups(const file::RankList::Counted& list, Exchange& exchange) {
  const Shape shape(list.iota_reshape_dims().begin(), list.iota_reshape_dims().end());
  Order order(list.iota_transpose_perm().begin(), list.iota_transpose_perm().end());
  const int64_t groups = list.num_replica_groups(), size = list.num_devices_per_group();
  int64_t count = 1;
  for (const int64_t length : shape) {
    if (length < 1 || length > graph::kMostRanks || count > graph::kMostRanks) return false;
    count *= length;
  }
  if (order.empty()) {
    for (size_t i = 0; i < shape.size(); ++i) order.push_back(static_cast<int64_t>(i));
  }
  Order sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool fits = order.size() == shape.size() && groups >= 1 && groups <= graph::kMostRanks &&
              size >= 1 && size <= graph::kMostRanks && groups * size == count &&
              count <= graph::kMostRanks;
  for (size_t i = 0; i < sorted.size(); ++i) fits = fits && sorted[i] == static_cast<int64_t>(i);
  if (!fits) return false;
  const Shape steps = graph::strides_of(shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, rank = 0;
    for (size_t d = order.size(); d-- > 0;) {
      rank += rest % shape[at(order[d])] * steps[at(order[d])];
      rest /= shape[at(order[d])];
    }
    if (i % size == 0) exchange.groups.emplace_back();
    exchange.groups.back().push_back(static_cast<uint32_t>(rank));
  }
  return true;
}

uint32_t rank_of(int64_t number) {
  return number < 0 || number >= graph::kMostRanks ? graph::kMostRanks
                                                   : static_cast<uint32_t>(number);
}

// The groups of the instruction; with none, `members` ranks are one.
Exchange exchange_of(Step& s, Exchange::Kind kind, int64_t members) {
  Exchange exchange{.kind = kind, .groups = {}, .members = members, .pairs = {}};
  const auto& list = s.instruction.collective_device_list();
  const auto& groups =
      list.replica_groups().empty() ? s.instruction.replica_groups() : list.replica_groups();
  if (list.has_iota_replica_group_list()) {
    if (!counted_groups(list.iota_replica_group_list(), exchange)) {
      s.b.fail("its list of ranks, {} groups of {}, does not fit its dimensions",
               list.iota_replica_group_list().num_replica_groups(),
               list.iota_replica_group_list().num_devices_per_group());
    }
  } else {
    for (const auto& group : groups) {
      // A group without ranks stands for all of them.
      if (groups.size() == 1 && group.replica_ids().empty()) break;
      exchange.groups.emplace_back();
      for (const int64_t rank : group.replica_ids()) {
        exchange.groups.back().push_back(rank_of(rank));
      }
    }
  }
  for (const auto& pair : s.instruction.source_target_pairs()) {
    exchange.pairs.emplace_back(rank_of(pair.source()), rank_of(pair.target()));
  }
  if (!exchange.groups.empty()) exchange.members = static_cast<int64_t>(exchange.groups[0].size());
  return exchange;
}

// Ranks combine numbers of four bytes; narrower ones are widened for it.
Value combined(Step& s, Value x, const Exchange& exchange) {
  const Step::Combination how = s.combine(s.called(0));
  if (!s.b.ok()) return graph::kNone;
  if (!how.function) return s.b.fail("a computation that is not +, x, max, min, and, or");
  Function function = *how.function;
  const Type type = s.b.type(x);
  if (function == Function::kAnd || function == Function::kOr) {
    if (type != Type::kBool) return s.b.fail("bits of {} combined", graph::type_name(type));
    function = function == Function::kAnd ? Function::kMinimum : Function::kMaximum;
  }
  Type wide = type;
  if (graph::type_bytes(type) < 4) wide = graph::is_real(type) ? Type::kF32 : Type::kI32;
  return s.b.cast(s.b.exchange(s.b.cast(x, wide), exchange, function), type);
}

// Of every operand alone.
template <class Exchanged>
Values each(Step& s, const Exchanged& exchanged) {
  Values results;
  for (size_t i = 0; i < s.count() && s.b.ok(); ++i) {
    const Value x = s.in(i);
    results.push_back(s.b.ok() ? exchanged(x, i) : graph::kNone);
  }
  return results;
}

Values all_reduce(Step& s) {
  const Exchange exchange = exchange_of(s, Exchange::Kind::kAllReduce, 1);
  return each(s, [&](Value x, size_t) { return combined(s, x, exchange); });
}

Values permute(Step& s) {
  const Exchange exchange = exchange_of(s, Exchange::Kind::kPermute, 1);
  return each(s, [&](Value x, size_t) { return s.b.exchange(x, exchange); });
}

// The dimension that is split or joined; -1 and a failure if there is none.
int64_t axis_of(Step& s, const Shape& shape) {
  const std::vector<int64_t> axes = s.dimensions();
  if (axes.size() == 1 && axes[0] >= 0 && at(axes[0]) < shape.size()) return axes[0];
  s.b.fail("{} dimensions of {}; one is split or joined", axes.size(), graph::shape_text(shape));
  return -1;
}

// The size of result `number` along the axis.
int64_t said_size(Step& s, size_t number, int64_t axis) {
  const auto& said = s.instruction.shape();
  const Shape shape = static_cast<int>(number) < said.tuple_shapes_size()
                          ? shape_of(said.tuple_shapes(static_cast<int>(number)))
                          : shape_of(said);
  return at(axis) < shape.size() ? shape[at(axis)] : 0;
}

// [.., members * size, ..] to [members, .., size, ..].
Value parts_in_front(Step& s, Value x, int64_t axis, int64_t members) {
  Shape split = s.b.shape(x);
  if (members < 1 || split[at(axis)] % members != 0) {
    return s.b.fail("{} elements of dimension {} in parts for {} ranks", split[at(axis)], axis,
                    members);
  }
  split[at(axis)] /= members;
  split.insert(split.begin() + axis, members);
  Order order = {axis};
  for (int64_t i = 0; i < static_cast<int64_t>(split.size()); ++i) {
    if (i != axis) order.push_back(i);
  }
  return s.b.transpose(s.b.reshape(x, split), order);
}

// And back.
Value parts_at(Step& s, Value x, int64_t axis) {
  if (!s.b.ok()) return graph::kNone;
  const Shape parts = s.b.shape(x);
  Order order;
  for (int64_t i = 1; i < static_cast<int64_t>(parts.size()); ++i) {
    if (i == axis + 1) order.push_back(0);
    order.push_back(i);
  }
  Shape joined(parts.begin() + 1, parts.end());
  joined[at(axis)] *= parts[0];
  return s.b.reshape(s.b.transpose(x, order), joined);
}

Values all_gather(Step& s) {
  return each(s, [&](Value x, size_t number) {
    const Shape shape = s.b.shape(x);
    const int64_t axis = axis_of(s, shape);
    if (axis < 0) return graph::kNone;
    const int64_t members = said_size(s, number, axis) / std::max<int64_t>(1, shape[at(axis)]);
    const Exchange exchange = exchange_of(s, Exchange::Kind::kAllGather, members);
    return parts_at(s, s.b.exchange(x, exchange), axis);
  });
}

Values reduce_scatter(Step& s) {
  return each(s, [&](Value x, size_t number) {
    const Shape shape = s.b.shape(x);
    const int64_t axis = axis_of(s, shape);
    if (axis < 0) return graph::kNone;
    const int64_t part = std::max<int64_t>(1, said_size(s, number, axis));
    const Exchange exchange =
        exchange_of(s, Exchange::Kind::kReduceScatter, shape[at(axis)] / part);
    return combined(s, parts_in_front(s, x, axis, exchange.members), exchange);
  });
}

// Of one array, whose parts along a dimension are for the ranks of a group; or of one array for
// each of them.
Values all_to_all(Step& s) {
  Values given;
  for (const Values& operand : s.operands) {
    given.insert(given.end(), operand.begin(), operand.end());
  }
  if (given.empty()) return {s.b.fail("no operands")};
  const bool array = !s.dimensions().empty();
  const Exchange exchange =
      exchange_of(s, Exchange::Kind::kAllToAll, array ? 0 : static_cast<int64_t>(given.size()));
  if (!s.b.ok()) return {graph::kNone};
  if (exchange.members == 0) return {s.b.fail("no groups of ranks, and so no number of parts")};
  if (array) {
    const int64_t axis = axis_of(s, s.b.shape(given[0]));
    if (axis < 0) return {graph::kNone};
    const Value parts = parts_in_front(s, given[0], axis, exchange.members);
    return {parts_at(s, s.b.exchange(parts, exchange), axis)};
  }
  if (static_cast<int64_t>(given.size()) != exchange.members) {
    return {s.b.fail("{} arrays for {} ranks", given.size(), exchange.members)};
  }
  Shape one = s.b.shape(given[0]);
  one.insert(one.begin(), 1);
  Values rows, results;
  for (const Value x : given) rows.push_back(s.b.reshape(x, one));
  const Value found = s.b.exchange(s.b.concat(rows, 0), exchange);
  for (int64_t i = 0; i < exchange.members && s.b.ok(); ++i) {
    results.push_back(s.b.reshape(s.b.slice_axis(found, 0, {i, 1, 1}), s.b.shape(given[0])));
  }
  return results;
}

constexpr Opcode kCollectiveOpcodes[] = {
    {"all-gather", all_gather},      {"all-reduce", all_reduce},         {"all-to-all", all_to_all},
    {"collective-permute", permute}, {"reduce-scatter", reduce_scatter},
};

}  // namespace

std::span<const Opcode> collective_opcodes() { return kCollectiveOpcodes; }

}  // namespace neuron::hlo
