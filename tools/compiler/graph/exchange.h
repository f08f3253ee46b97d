// SPDX-License-Identifier: Apache-2.0
//
// What ranks that compute one graph each, on inputs of their own, tell one another: the collectives
// of a graph.
//
// Concept: an array that is exchanged has its parts for (or of) the members of a group one behind
// the other, so dimensions are brought in front by moves before and taken back by moves behind.
// Callers: Builder, the interpreter, the lowering, importers. Thread-safe: values. Fails: sentences
// about groups that do not fit.
#ifndef TOOLS_COMPILER_GRAPH_EXCHANGE_H
#define TOOLS_COMPILER_GRAPH_EXCHANGE_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/compiler/graph/tensor.h"

namespace neuron::graph {

struct Node;
struct Graph;

struct Exchange {
  enum class Kind : uint8_t {
    kAllReduce,      // x to the combination of all members' x
    kAllGather,      // x to [members, x]
    kReduceScatter,  // [members, part] to the member's own part, combined
    kAllToAll,       // [members, part] to [members, part]: what each has for this one
    kPermute,        // x to x of the rank that sends to this one; zeros if none does
  };
  Kind kind = Kind::kAllReduce;
  std::vector<std::vector<uint32_t>> groups;         // of ranks, of one size; none: all are one
  int64_t members = 1;                               // of a group; all-reduce and permute: unused
  std::vector<std::pair<uint32_t, uint32_t>> pairs;  // of a permute: from, to
};

// Ranks have numbers below this.
inline constexpr uint32_t kMostRanks = 4096;

const char* exchange_name(Exchange::Kind kind);  // "all-reduce"

// Empty, or what is wrong with its groups and pairs.
std::string exchange_problem(const Exchange& exchange);

// The value of a node of every rank, given the operand of every rank. Ranks that the groups name
// must be there.
std::vector<Tensor> evaluate_exchange(const Node& node, const std::vector<const Tensor*>& operands);

// How many ranks a graph names at least; 0: it exchanges nothing.
uint32_t ranks_of(const Graph& graph);

}  // namespace neuron::graph

#endif
