// SPDX-License-Identifier: Apache-2.0
// Random graphs on the emulated chip: the values of the reference, the same bits without and with
// optimisation, the same bytes when compiled again, and no error in between.
// As `make nightly`: RC_PARAMS="max_success=10000" for graphs of up to 50 nodes, and
// NEURON_TEST_GRAPH_NODES=1000 RC_PARAMS="max_success=200" for such of which 500 are needed.
#include "tests/property/compiler/random_graph.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "driver/base/format.h"
#include "tests/property/compiler/rounding_spread.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/execution/session.h"
#include "tools/neuron-compile/check/comparison.h"
#include "tools/neuron-compile/check/device_run.h"

namespace neuron::property {
namespace {

using graph::SharedTensor;

// Errors of one rounding grow along a graph; few of its functions make more of them than this.
constexpr compile::Bound kBound{1e-5, 1e-3, 2e-3};
// Where they do, an element may be so many times as far off as roundings alone carried it.
constexpr double kSpreads = 4;

lowering::Options options_of(int level) {
  lowering::Options options;
  options.level = level;
  return options;
}

std::vector<SharedTensor> run(const graph::Graph& graph, int level,
                              const std::vector<SharedTensor>& inputs) {
  auto lowered = lowering::lower(graph, options_of(level));
  if (!lowered) RC_FAIL("-O" + std::to_string(level) + ": " + lowered.error().sentence);
  if (!lowered->refusals.empty()) RC_FAIL(lowered->refusals[0].sentence);
  auto ran = compile::run_on_device(lowered->neff, graph, inputs);
  if (!ran) RC_FAIL("-O" + std::to_string(level) + ": " + ran.error().sentence);
  return ran->outputs;
}

bool same_bits(const graph::Tensor& a, const graph::Tensor& b) {
  const auto equal = [](const auto& x, const auto& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0);
  };
  return equal(a.reals, b.reals) && equal(a.integers, b.integers);
}

bool same_form(const graph::Tensor& a, const graph::Tensor& b) {
  return a.type == b.type && a.shape == b.shape;
}

// The array with those elements as expected that are off by no more than roundings allow.
graph::Tensor without_roundings(graph::Tensor found, const graph::Tensor& expected,
                                const std::vector<double>& spread) {
  for (size_t i = 0; i < found.reals.size(); ++i) {
    const double x = expected.reals[i];
    if (std::fabs(found.reals[i] - x) <= kSpreads * spread[i]) found.reals[i] = x;
  }
  return found;
}

// A line for each node, for whoever reads a failure.
std::string text_of(const graph::Graph& graph) {
  std::string text;
  const std::vector<bool> needed = graph::needed(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    if (!needed[i]) continue;
    text += base::format("%{} = kind {} function {} {} {}", i, static_cast<int>(node.kind),
                         graph::function_name(node.function), graph::type_name(node.type),
                         graph::shape_text(node.shape));
    for (const graph::Value operand : node.operands) text += base::format(" %{}", operand);
    for (const graph::Region& region : node.regions) {
      text += base::format(" [{}: {} from {}", region.operand, region.to, region.from);
      for (const auto& d : region.dimensions) {
        text += base::format(", {}: {} {}", d.size, d.to_step, d.from_step);
      }
      text += "]";
    }
    text += "\n";
  }
  for (const graph::Output& output : graph.outputs) {
    text += base::format("output %{}\n", output.value);
  }
  return text;
}

// The device of all graphs; opened when the first one runs.
void open_device() {
  static const auto session = [] {
    setenv("NEURON_EMULATOR", "trn1.2xlarge", 0);
    return execution::Session::open(1);
  }();
  if (!session) RC_FAIL(session.error().sentence);
}

size_t most_nodes() {
  const char* wanted = std::getenv("NEURON_TEST_GRAPH_NODES");
  return wanted == nullptr ? 50 : std::strtoul(wanted, nullptr, 10);
}

graph::Graph some_graph() {
  const auto number = rc::gen::arbitrary<uint32_t>();
  // Up to fifty operations, or so many that they make all nodes that are wanted, and such as occur
  // at the end of a series otherwise.
  const auto numbers =
      most_nodes() == 50
          ? *rc::gen::scale(2.0, rc::gen::container<std::vector<uint32_t>>(number))
          : *rc::gen::resize(rc::kNominalSize,
                             rc::gen::container<std::vector<uint32_t>>(4 * most_nodes(), number));
  return random_graph(numbers, most_nodes());
}

RC_GTEST_PROP(RandomGraphs, HaveTheValuesOfTheReferenceAndTheSameBitsAtEveryLevel, ()) {
  open_device();
  const graph::Graph graph = some_graph();
  RC_LOG() << text_of(graph);
  const auto needed = graph::needed(graph);
  const auto nodes = std::count(needed.begin(), needed.end(), true);
  RC_TAG("at least " + std::to_string(nodes < 50 ? nodes / 10 * 10 : nodes / 100 * 100) + " nodes");
  const std::vector<SharedTensor> inputs = random_inputs(graph);
  const std::vector<SharedTensor> expected = graph::evaluate(graph, inputs);
  const auto plain = run(graph, 0, inputs);
  const auto fast = run(graph, 2, inputs);
  std::vector<std::vector<double>> spread;
  for (size_t i = 0; i < expected.size(); ++i) {
    std::string wrong = compile::difference(*plain[i], *expected[i], kBound);
    if (!wrong.empty() && same_form(*plain[i], *expected[i])) {
      if (spread.empty()) spread = rounding_spread(graph, inputs, expected);
      wrong = compile::difference(without_roundings(*plain[i], *expected[i], spread[i]),
                                  *expected[i], kBound);
      RC_TAG("with outputs that roundings carry beyond the bound");
    }
    if (!wrong.empty()) {
      RC_FAIL("-O0, output " + std::to_string(i) + ": " + wrong +
              ", and roundings do not carry them so far");
    }
    if (!same_bits(*plain[i], *fast[i])) {
      RC_FAIL("-O2 has other bits than -O0, output " + std::to_string(i) + ": " +
              compile::difference(*fast[i], *plain[i], {0, 0, 0}));
    }
  }
}

RC_GTEST_PROP(RandomGraphs, GiveTheSameBytesWhenTheyAreCompiledAgain, ()) {
  const graph::Graph graph = some_graph();
  const auto once = lowering::lower(graph, options_of(2));
  const auto again = lowering::lower(graph, options_of(2));
  RC_ASSERT(once.has_value() && again.has_value());
  RC_ASSERT(once->neff == again->neff);
}

}  // namespace
}  // namespace neuron::property
