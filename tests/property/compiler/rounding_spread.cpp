// SPDX-License-Identifier: Apache-2.0
#include "tests/property/compiler/rounding_spread.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace neuron::property {
namespace {

using graph::Kind;
using graph::Node;
using graph::SharedTensor;
using graph::Tensor;

constexpr uint32_t kEvaluations = 32;

// The unit of the last place, as a part of the number at most.
double last_place(graph::Type type) {
  switch (type) {
    case graph::Type::kBf16:
      return 0x1p-7;
    case graph::Type::kF16:
      return 0x1p-10;
    default:
      return 0x1p-23;  // devices compute wider types no better
  }
}

// Functions are some units off; a sum of equal terms is rounded the same way by each of them.
double units_of(const Node& node) {
  const bool sums = node.kind == Kind::kProduct ||
                    (node.kind == Kind::kReduce && node.function == graph::Function::kAdd);
  return std::max(4.0, sums ? static_cast<double>(node.depth) / 2 : 0);
}

bool is_rounded(const Node& node) {
  return graph::is_real(node.type) &&
         (node.kind == Kind::kMap || node.kind == Kind::kProduct || node.kind == Kind::kReduce);
}

std::vector<SharedTensor> evaluate_off(const graph::Graph& graph,
                                       const std::vector<SharedTensor>& inputs, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> part(-1, 1);
  std::vector<SharedTensor> values(graph.nodes.size());
  for (size_t n = 0; n < graph.inputs.size(); ++n) {
    values[static_cast<size_t>(graph.inputs[n])] = inputs[n];
  }
  const std::vector<bool> needed = graph::needed(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!needed[n] || node.kind == Kind::kInput) continue;
    std::vector<const Tensor*> operands;
    for (const graph::Value operand : node.operands) {
      operands.push_back(values[static_cast<size_t>(operand)].get());
    }
    Tensor value = graph::evaluate_node(node, operands);
    if (is_rounded(node)) {
      const double most = units_of(node) * last_place(node.type);
      for (double& x : value.reals) x *= 1 + part(random) * most;
    }
    values[n] = std::make_shared<const Tensor>(std::move(value));
  }
  std::vector<SharedTensor> outputs;
  for (const graph::Output& output : graph.outputs) {
    outputs.push_back(values[static_cast<size_t>(output.value)]);
  }
  return outputs;
}

}  // namespace

std::vector<std::vector<double>> rounding_spread(const graph::Graph& graph,
                                                 const std::vector<SharedTensor>& inputs,
                                                 const std::vector<SharedTensor>& expected) {
  std::vector<std::vector<double>> spread;
  for (const SharedTensor& output : expected) spread.emplace_back(output->reals.size(), 0.0);
  for (uint32_t seed = 0; seed < kEvaluations; ++seed) {
    const std::vector<SharedTensor> off = evaluate_off(graph, inputs, seed);
    for (size_t n = 0; n < expected.size(); ++n) {
      for (size_t i = 0; i < expected[n]->reals.size(); ++i) {
        const double distance = std::fabs(off[n]->reals[i] - expected[n]->reals[i]);
        if (std::isfinite(distance)) spread[n][i] = std::max(spread[n][i], distance);
      }
    }
  }
  return spread;
}

}  // namespace neuron::property
