// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/graph/exchange.h"

#include <algorithm>
#include <set>

#include "driver/base/format.h"
#include "tools/compiler/graph/graph.h"
#include "tools/compiler/graph/map_function.h"

namespace neuron::graph {
namespace {

using Group = std::vector<uint32_t>;

Group all_of(size_t ranks) {
  Group group(ranks);
  for (size_t i = 0; i < ranks; ++i) group[i] = static_cast<uint32_t>(i);
  return group;
}

// Copies `count` elements.
void copy(Tensor& to, int64_t first, const Tensor& from, int64_t from_first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto target = static_cast<size_t>(first + i),
               source = static_cast<size_t>(from_first + i);
    if (is_real(to.type)) {
      to.reals[target] = from.reals[source];
    } else {
      to.integers[target] = from.integers[source];
    }
  }
}

// Element by element over the group, and rounded once.
Tensor combined(const Node& node, const std::vector<const Tensor*>& operands, const Group& group) {
  Tensor sum = *operands[group[0]];
  for (size_t i = 0; i < static_cast<size_t>(sum.elements()); ++i) {
    for (size_t k = 1; k < group.size(); ++k) {
      const Tensor& other = *operands[group[k]];
      if (is_real(node.type)) {
        sum.reals[i] = combine(node.function, sum.reals[i], other.reals[i]);
      } else {
        sum.integers[i] = combine(node.function, node.type, sum.integers[i], other.integers[i]);
      }
    }
    if (is_real(node.type)) sum.reals[i] = rounded(node.type, sum.reals[i]);
  }
  return sum;
}

}  // namespace

const char* exchange_name(Exchange::Kind kind) {
  constexpr const char* kNames[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                    "collective-permute"};
  return kNames[static_cast<size_t>(kind)];
}

std::string exchange_problem(const Exchange& exchange) {
  std::set<uint32_t> seen;
  for (const auto& group : exchange.groups) {
    if (group.empty() || group.size() != exchange.groups[0].size()) {
      return base::format("groups of {} and of {} ranks; all must have one size",
                          exchange.groups[0].size(), group.size());
    }
    for (const uint32_t rank : group) {
      if (rank >= kMostRanks) {
        return base::format("rank {}; ranks below {} are supported", rank, kMostRanks);
      }
      if (!seen.insert(rank).second) return base::format("rank {} twice in the groups", rank);
    }
  }
  // A program is the same for all ranks, so none may be left out.
  if (!seen.empty() && *seen.rbegin() + 1 != seen.size()) {
    return base::format("groups that leave ranks out: they name {}, up to rank {}", seen.size(),
                        *seen.rbegin());
  }
  std::set<uint32_t> targets, sources;
  for (const auto& [from, to] : exchange.pairs) {
    if (from >= kMostRanks || to >= kMostRanks) {
      return base::format("a pair of ranks {} and {}; ranks below {} are supported", from, to,
                          kMostRanks);
    }
    if (!targets.insert(to).second) return base::format("two ranks send to rank {}", to);
    if (!sources.insert(from).second) return base::format("rank {} sends to two ranks", from);
  }
  return "";
}

std::vector<Tensor> evaluate_exchange(const Node& node,
                                      const std::vector<const Tensor*>& operands) {
  const Exchange& exchange = *node.exchange;
  std::vector<Tensor> results(operands.size(), Tensor::zeros(node.type, node.shape));
  const int64_t given = operands[0]->elements(), count = elements_of(node.shape);
  if (exchange.kind == Exchange::Kind::kPermute) {
    for (const auto& [from, to] : exchange.pairs) copy(results[to], 0, *operands[from], 0, count);
    return results;
  }
  // An all-reduce does not say how many ranks all are.
  const size_t all = exchange.kind == Exchange::Kind::kAllReduce
                         ? operands.size()
                         : static_cast<size_t>(exchange.members);
  const std::vector<Group> groups =
      exchange.groups.empty() ? std::vector<Group>{all_of(all)} : exchange.groups;
  for (const Group& group : groups) {
    const auto members = static_cast<int64_t>(group.size());
    const bool combines = exchange.kind == Exchange::Kind::kAllReduce ||
                          exchange.kind == Exchange::Kind::kReduceScatter;
    const Tensor sum = combines ? combined(node, operands, group) : Tensor();
    for (int64_t mine = 0; mine < members; ++mine) {
      Tensor& result = results[group[static_cast<size_t>(mine)]];
      if (exchange.kind == Exchange::Kind::kAllReduce) copy(result, 0, sum, 0, count);
      if (exchange.kind == Exchange::Kind::kReduceScatter) {
        copy(result, 0, sum, mine * count, count);
      }
      for (int64_t other = 0; !combines && other < members; ++other) {
        const Tensor& from = *operands[group[static_cast<size_t>(other)]];
        const bool gathers = exchange.kind == Exchange::Kind::kAllGather;
        const int64_t part = gathers ? given : given / members;
        copy(result, other * part, from, gathers ? 0 : mine * part, part);
      }
    }
  }
  return results;
}

uint32_t ranks_of(const Graph& graph) {
  uint32_t most = 0;
  const std::vector<bool> marks = needed(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!marks[i] || graph.nodes[i].kind != Kind::kExchange) continue;
    const Exchange& exchange = *graph.nodes[i].exchange;
    most = std::max<uint32_t>({most, 1, static_cast<uint32_t>(exchange.members)});
    for (const Group& group : exchange.groups) {
      for (const uint32_t rank : group) most = std::max(most, rank + 1);
    }
    for (const auto& [from, to] : exchange.pairs) most = std::max({most, from + 1, to + 1});
  }
  return most;
}

}  // namespace neuron::graph
