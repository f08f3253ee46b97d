// SPDX-License-Identifier: Apache-2.0
//
// An HLO module, as XLA front ends write it for compilers, becomes a graph.
//
// Inputs have the names of the entry's parameters. Outputs have those of the root's attribute
// neff_output_names, or are "output0", "output1" and so on; those without elements are left out.
// Aliases of the module become donors of outputs.
// Callers: neuron-compile, tests. Thread-safe: no state. Fails: a file that is no module gives an
// error; what a module has that cannot be compiled gives refusals, all of them at once.
#ifndef TOOLS_COMPILER_HLO_IMPORTER_H
#define TOOLS_COMPILER_HLO_IMPORTER_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tools/compiler/graph/builder.h"
#include "tools/compiler/graph/refusal.h"

namespace neuron::hlo {

struct Imported {
  graph::Graph graph;
  std::vector<graph::Refusal> refusals;  // empty: the graph is whole
};

runtime::Result<Imported> import_module(std::span<const uint8_t> bytes, const std::string& name,
                                        const graph::Limits& limits = {});

// The opcodes that are known, sorted.
std::vector<std::string> opcode_names();

}  // namespace neuron::hlo

#endif
