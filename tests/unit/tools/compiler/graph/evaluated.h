// SPDX-License-Identifier: Apache-2.0
// What an imported model computes, by the interpreter.
//
// Callers: tests of importers. Values. Fails the test with the importer's sentences, and is empty
// then.
#ifndef TESTS_UNIT_TOOLS_COMPILER_GRAPH_EVALUATED_H
#define TESTS_UNIT_TOOLS_COMPILER_GRAPH_EVALUATED_H

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tools/compiler/graph/interpreter.h"
#include "tools/compiler/graph/refusal.h"

namespace neuron::graph {

// The elements of each output, for those of each input, in the order of the model. `imported` is
// the result of an importer.
template <class Imported>
std::vector<std::vector<double>> evaluated(const Imported& imported,
                                           const std::vector<std::vector<double>>& inputs) {
  EXPECT_TRUE(imported) << (imported ? "" : imported.error().sentence);
  if (!imported) return {};
  for (const Refusal& refusal : imported->refusals) ADD_FAILURE() << refusal.text();
  if (!imported->refusals.empty()) return {};
  std::vector<SharedTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& node = imported->graph.nodes[at(imported->graph.inputs[i])];
    Tensor tensor = Tensor::zeros(node.type, node.shape);
    for (size_t k = 0; k < inputs[i].size(); ++k) tensor.set(k, inputs[i][k]);
    tensors.push_back(std::make_shared<const Tensor>(std::move(tensor)));
  }
  std::vector<std::vector<double>> all;
  for (const auto& output : evaluate(imported->graph, tensors)) {
    std::vector<double>& values = all.emplace_back();
    for (size_t k = 0; k < at(output->elements()); ++k) values.push_back(output->real(k));
  }
  return all;
}

}  // namespace neuron::graph

#endif
