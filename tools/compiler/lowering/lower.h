// SPDX-License-Identifier: Apache-2.0
//
// A graph becomes a NEFF: each node, or group of maps, is a task of the program.
// Callers: neuron-compile, tests. Thread-safe: no state; the same graph and options give the same
// bytes. Fails: refusals for what a program cannot hold, with the node; else the sentence of the
// program builder.
#ifndef TOOLS_COMPILER_LOWERING_LOWER_H
#define TOOLS_COMPILER_LOWERING_LOWER_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tools/compiler/graph/graph.h"
#include "tools/compiler/graph/refusal.h"
#include "tools/compiler/lowering/memory.h"
#include "tools/compiler/lowering/tasks.h"
#include "tools/compiler/program_builder/prediction.h"

namespace neuron::lowering {

struct Options {
  uint8_t generation = 2;  // 2 (trn1, inf2), 3 (trn2) or 4 (trn3)
  uint32_t physical_cores = 1;
  int level = 2;  // 0: every map is a task of its own
  ProductType products = ProductType::kF32;
  uint64_t hbm = 0;  // bytes that a core has; 0: what the generation has
  // Told how many nodes of the graph are behind it; may be null.
  std::function<void(size_t done, size_t total)> progress;
};

// What the transfers of a program move, and the least time that all DMA engines take for it.
struct Movement {
  uint64_t bytes = 0;
  size_t transfers = 0;
  double dma_us = 0;
};

struct Lowered {
  std::vector<uint8_t> neff;
  std::vector<graph::Refusal> refusals;  // empty: the NEFF is whole
  size_t tasks = 0;
  Movement moved;
  std::optional<builder::Prediction> predicted;  // of programs whose time can be told
  Memory memory;
  std::vector<std::string> notes;  // where values are less exact than the model says
};

runtime::Result<Lowered> lower(const Graph& graph, const Options& options);

}  // namespace neuron::lowering

#endif
