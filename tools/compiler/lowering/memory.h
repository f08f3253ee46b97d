// SPDX-License-Identifier: Apache-2.0
//
// What a program keeps in HBM, layer by layer, and what to do when a core has less.
// Callers: the lowering fills it, programs print it. Thread-safe: values. Cannot fail.
#ifndef TOOLS_COMPILER_LOWERING_MEMORY_H
#define TOOLS_COMPILER_LOWERING_MEMORY_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/compiler/graph/graph.h"

namespace neuron::lowering {

// Of one node of the model, in the order in which they are computed.
struct LayerMemory {
  std::string layer;
  uint64_t weights = 0;
  uint64_t values = 0;  // between layers
};

struct Memory {
  std::vector<LayerMemory> layers;
  std::map<std::string, size_t> numbers;  // of layers, by name
  uint64_t tensors = 0;                   // inputs and outputs

  uint64_t weights() const;
  uint64_t values() const;
  uint64_t total() const { return tensors + weights() + values(); }

  // The layer, and what adds to it, is made if it is a new one.
  void add_weights(const std::string& layer, uint64_t bytes);
  void add_values(const std::string& layer, uint64_t bytes);
  LayerMemory& layer_of(const std::string& name);

  // "102 MB weights, 0.6 MB inputs and outputs, 3.0 MB values between layers"
  std::string text() const;
};

// Bytes of HBM that a core of the generation has: of one stack, without what is the firmware's.
uint64_t hbm_of(uint8_t generation);

// Why it does not fit: what holds most of it, and what would fit. "" if it fits.
std::string excess(const Memory& memory, uint64_t hbm, const graph::Graph& graph);

// "1.5 GB"
std::string bytes_text(uint64_t bytes);

}  // namespace neuron::lowering

#endif
