// SPDX-License-Identifier: Apache-2.0
//
// What the fuzz targets of importers do with what they imported. Callers: these. Aborts on a
// finding.
#ifndef TESTS_FUZZ_COMPILED_GRAPH_H
#define TESTS_FUZZ_COMPILED_GRAPH_H

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/refusal.h"
#include "tools/compiler/lowering/lower.h"

namespace neuron::fuzz {

// Small models find what large ones would, and sooner.
inline constexpr size_t kMostBytes = 1 << 16;
inline constexpr graph::Limits kLimits = {.elements = 1 << 14,
                                          .nodes = 1 << 10,
                                          .folded = 1 << 10,
                                          .work = 1 << 20,
                                          .constants = 1 << 20};

// Refusals have sentences; a graph without one becomes a program or a sentence, twice the same.
inline void compile(const graph::Graph& graph, const std::vector<graph::Refusal>& refusals) {
  for (const graph::Refusal& refusal : refusals) {
    if (refusal.text().empty()) std::abort();
  }
  // Larger programs only take longer.
  if (!refusals.empty() || graph.nodes.size() > 64) return;
  const auto first = lowering::lower(graph, {});
  const auto again = lowering::lower(graph, {});
  if (first.has_value() == again.has_value() && (!first || first->neff == again->neff)) return;
  std::fprintf(stderr, "one graph gives two programs\n");
  std::abort();
}

}  // namespace neuron::fuzz

#endif
