// SPDX-License-Identifier: Apache-2.0
//
// A test of compiled models on an emulated trn1.2xlarge, which is open while it runs.
// Callers: tests, one thread. Owns the session. Fails: the test, with the sentence of the runtime.
#ifndef TESTS_SYSTEM_ONNX_DEVICE_TEST_H
#define TESTS_SYSTEM_ONNX_DEVICE_TEST_H

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "tests/support/setting.h"
#include "tools/compiler/lowering/lower.h"
#include "tools/compiler/onnx/importer.h"
#include "tools/execution/session.h"
#include "tools/neuron-compile/check/comparison.h"
#include "tools/neuron-compile/check/device_run.h"

namespace neuron::compile {

// From -size to size, the same for the same seed.
inline std::vector<float> seeded_numbers(size_t count, double size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>((random() / 2147483648.0 - 1) * size);
  return values;
}

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    auto session = execution::Session::open(1);
    ASSERT_TRUE(session) << session.error().sentence;
    session_ = std::move(*session);
  }

  // The only output, for seeded numbers as the only input: near the reference's at -O0, and the
  // same bits at -O2. `us`: the model time of the latter.
  static void expect_reference_and_equal_bits(const std::vector<uint8_t>& model,
                                              const graph::Shape& input_shape, const Bound& bound,
                                              double& us) {
    auto imported = onnx::import_model(model, "model", ".", {});
    ASSERT_TRUE(imported) << imported.error().sentence;
    ASSERT_TRUE(imported->refusals.empty()) << imported->refusals[0].sentence;
    const std::vector<float> values =
        seeded_numbers(static_cast<size_t>(graph::elements_of(input_shape)), 1, 4);
    const auto input = std::make_shared<const graph::Tensor>(
        graph::Tensor::of_reals(graph::Type::kF32, input_shape, {values.begin(), values.end()}));
    const auto expected = graph::evaluate(imported->graph, {input});
    std::vector<double> before;
    for (const int level : {0, 2}) {
      auto lowered = lowering::lower(imported->graph, {.level = level});
      ASSERT_TRUE(lowered) << lowered.error().sentence;
      auto run = run_on_device(lowered->neff, imported->graph, {input}, true);
      ASSERT_TRUE(run) << run.error().sentence;
      EXPECT_EQ(difference(*run->outputs[0], *expected[0], bound), "");
      if (level > 0) {
        EXPECT_EQ(run->outputs[0]->reals, before);
      }
      before = run->outputs[0]->reals;
      us = run->device_us;
    }
  }

 private:
  const test::Setting emulator_{"NEURON_EMULATOR", "trn1.2xlarge"};
  std::unique_ptr<execution::Session> session_;
};

}  // namespace neuron::compile

#endif
