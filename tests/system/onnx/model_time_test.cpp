// SPDX-License-Identifier: Apache-2.0
// What compiled models take on the emulated chip. Model time follows from the program alone, so the
// bounds hold on every host.
#include <gtest/gtest.h>

#include "tests/bench/compiler/models.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/compiler/onnx/importer.h"
#include "tools/execution/session.h"
#include "tools/neuron-compile/check/comparison.h"
#include "tools/neuron-compile/check/device_run.h"

namespace neuron::compile {
namespace {

// Sums that nearly vanish keep the error of their parts.
constexpr Bound kBound{1e-7, 1e-3, 1e-5};

class CompiledModels : public testing::Test {
 protected:
  // Executed and predicted, in microseconds.
  struct Times {
    double executed = 0, predicted = 0;
  };
  static Times model_time(const bench::Model& model) {
    auto imported = onnx::import_model(model.write().bytes(), model.name, ".", {});
    if (!imported) throw imported.error();
    const graph::Graph& graph = imported->graph;
    std::vector<graph::SharedTensor> inputs;
    for (const graph::Value input : graph.inputs) {
      const graph::Node& node = graph.nodes[static_cast<size_t>(input)];
      graph::Tensor tensor = graph::Tensor::zeros(node.type, node.shape);
      for (size_t i = 0; i < tensor.reals.size(); ++i) {
        tensor.reals[i] = static_cast<double>(i * 37 % 53) / 26 - 1;
      }
      inputs.push_back(std::make_shared<const graph::Tensor>(std::move(tensor)));
    }
    auto lowered = lowering::lower(graph, {});
    if (!lowered) throw lowered.error();
    auto run = run_on_device(lowered->neff, graph, inputs, true);
    if (!run) throw run.error();
    // The reference takes minutes for the largest.
    if (!model.large) {
      const auto expected = graph::evaluate(graph, inputs);
      EXPECT_EQ(difference(*run->outputs[0], *expected[0], kBound), "") << model.name;
    }
    return {run->device_us, lowered->predicted ? lowered->predicted->microseconds : 0};
  }
};

TEST_F(CompiledModels, TakeNoLongerThanTheirBoundsOnTrn1AndArePredictedWithinTenPercent) {
  setenv("NEURON_EMULATOR", "trn1.2xlarge", 1);
  const auto session = execution::Session::open(1);
  ASSERT_TRUE(session) << session.error().sentence;
  for (const bench::Model& model : bench::models()) {
    if (model.name == "resnet50") continue;  // `make bench` has it
    const Times times = model_time(model);
    EXPECT_LE(times.executed, model.most_us) << model.name;
    EXPECT_NEAR(times.predicted, times.executed, 0.1 * times.executed) << model.name;
  }
}

}  // namespace
}  // namespace neuron::compile
