// SPDX-License-Identifier: Apache-2.0
// Convolutions in which a channel sees itself only, as mobile networks have them: the values of the
// reference, the same bits at every level, and no descriptor for each element.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/tools/compiler/onnx/model_writer.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/compiler/onnx/importer.h"
#include "tools/execution/session.h"
#include "tools/neuron-compile/check/comparison.h"
#include "tools/neuron-compile/check/device_run.h"

namespace neuron::compile {
namespace {

struct Layer {
  int64_t channels, height, width, kernel, stride;
  double most_us;  // on trn1
};

std::vector<float> numbers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() / 2147483648.0 - 1);
  return values;
}

std::vector<uint8_t> model(const Layer& layer) {
  onnx::ModelWriter writer;
  writer.input("x", {1, layer.channels, layer.height, layer.width});
  const auto count = static_cast<size_t>(layer.channels * layer.kernel * layer.kernel);
  writer.constant("w", {layer.channels, 1, layer.kernel, layer.kernel}, numbers(count, 3));
  auto& node = writer.node("Conv", {"x", "w"}, {"y"});
  const auto integers = [&node](const char* name, const std::vector<int64_t>& values) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    for (const int64_t value : values) attribute->add_ints(value);
  };
  const int64_t border = layer.kernel / 2;
  integers("strides", {layer.stride, layer.stride});
  integers("pads", {border, border, border, border});
  auto* group = node.add_attribute();
  group->set_name("group");
  group->set_i(layer.channels);
  writer.output("y");
  return writer.bytes();
}

class DepthwiseLayers : public testing::Test {
 protected:
  void SetUp() override {
    setenv("NEURON_EMULATOR", "trn1.2xlarge", 1);
    auto session = execution::Session::open(1);
    ASSERT_TRUE(session) << session.error().sentence;
    session_ = std::move(*session);
  }

 private:
  std::unique_ptr<execution::Session> session_;
};

TEST_F(DepthwiseLayers,
       HaveTheReferencesValuesTheSameBitsAtEveryLevelAndTakeNoLongerThanTheirBounds) {
  // As products with windows in HBM they took 99, 3907, 691 and 5247 us.
  const Layer layers[] = {{16, 24, 40, 3, 1, 50},
                          {48, 48, 128, 3, 2, 105},
                          {130, 12, 20, 5, 1, 66},
                          {16, 96, 256, 3, 2, 350}};
  for (const Layer& layer : layers) {
    SCOPED_TRACE(testing::Message()
                 << layer.channels << " channels of " << layer.height << " x " << layer.width);
    auto imported = onnx::import_model(model(layer), "model", ".", {});
    ASSERT_TRUE(imported) << imported.error().sentence;
    ASSERT_TRUE(imported->refusals.empty()) << imported->refusals[0].sentence;
    const graph::Shape shape = {1, layer.channels, layer.height, layer.width};
    const std::vector<float> values = numbers(static_cast<size_t>(graph::elements_of(shape)), 4);
    const auto input = std::make_shared<const graph::Tensor>(
        graph::Tensor::of_reals(graph::Type::kF32, shape, {values.begin(), values.end()}));
    const auto expected = graph::evaluate(imported->graph, {input});
    std::vector<double> before;
    for (const int level : {0, 2}) {
      auto lowered = lowering::lower(imported->graph, {.level = level});
      ASSERT_TRUE(lowered) << lowered.error().sentence;
      auto run = run_on_device(lowered->neff, imported->graph, {input}, true);
      ASSERT_TRUE(run) << run.error().sentence;
      EXPECT_EQ(difference(*run->outputs[0], *expected[0], {1e-6, 0, 1e-6}), "");
      if (level > 0) {
        EXPECT_EQ(run->outputs[0]->reals, before);
        EXPECT_LE(run->device_us, layer.most_us);
      }
      before = run->outputs[0]->reals;
    }
  }
}

}  // namespace
}  // namespace neuron::compile
