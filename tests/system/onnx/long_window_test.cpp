// SPDX-License-Identifier: Apache-2.0
// Convolutions over sound: windows of few channels with more elements than there are partitions.
// Their parts see the same image, shifted; with and without it in SBUF the bits are the same.
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

struct Window {
  int64_t images, channels, length, kernel, outputs, stride, dilation, before, after;
};

std::vector<float> numbers(size_t count, double size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>((random() / 2147483648.0 - 1) * size);
  return values;
}

std::vector<uint8_t> model(const Window& w) {
  onnx::ModelWriter writer;
  writer.input("x", {w.images, w.channels, w.length});
  const auto count = static_cast<size_t>(w.outputs * w.channels * w.kernel);
  writer.constant("w", {w.outputs, w.channels, w.kernel}, numbers(count, 0.1, 3));
  auto& node = writer.node("Conv", {"x", "w"}, {"y"});
  const auto integers = [&node](const char* name, const std::vector<int64_t>& values) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    for (const int64_t value : values) attribute->add_ints(value);
  };
  integers("strides", {w.stride});
  integers("dilations", {w.dilation});
  integers("pads", {w.before, w.after});
  writer.output("y");
  return writer.bytes();
}

class LongWindows : public testing::Test {
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

TEST_F(LongWindows, AreMultipliedInPartsWithTheValuesOfTheReferenceAndTheSameBitsAtEveryLevel) {
  const Window windows[] = {
      {1, 1, 640, 256, 258, 128, 1, 0, 0},  // a short Fourier transform
      {2, 1, 300, 129, 5, 1, 1, 64, 64},    // one element in the second part
      {1, 3, 400, 100, 8, 4, 2, 30, 7},    {1, 5, 200, 60, 130, 3, 1, 59, 0},
      {1, 31, 40, 9, 3, 2, 3, 0, 20},
  };
  for (const Window& window : windows) {
    SCOPED_TRACE(testing::Message() << window.channels << " channels, kernel " << window.kernel);
    auto imported = onnx::import_model(model(window), "model", ".", {});
    ASSERT_TRUE(imported) << imported.error().sentence;
    ASSERT_TRUE(imported->refusals.empty()) << imported->refusals[0].sentence;
    const std::vector<float> values =
        numbers(static_cast<size_t>(window.images * window.channels * window.length), 1, 4);
    const auto input = std::make_shared<const graph::Tensor>(
        graph::Tensor::of_reals(graph::Type::kF32, {window.images, window.channels, window.length},
                                {values.begin(), values.end()}));
    const auto expected = graph::evaluate(imported->graph, {input});
    std::vector<double> before;
    for (const int level : {0, 2}) {
      auto lowered = lowering::lower(imported->graph, {.level = level});
      ASSERT_TRUE(lowered) << lowered.error().sentence;
      auto run = run_on_device(lowered->neff, imported->graph, {input});
      ASSERT_TRUE(run) << run.error().sentence;
      EXPECT_EQ(difference(*run->outputs[0], *expected[0], {1e-7, 0, 1e-6}), "");
      if (level > 0) {
        EXPECT_EQ(run->outputs[0]->reals, before);
      }
      before = run->outputs[0]->reals;
    }
  }
}

}  // namespace
}  // namespace neuron::compile
