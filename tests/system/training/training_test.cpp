// SPDX-License-Identifier: Apache-2.0
// Trains the digits model on the emulated core, as `neuron-digits train` does, for fewer epochs.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>

#include "tools/compiler/kernels/kernels.h"
#include "tools/neuron-digits/loss_curves.h"
#include "tools/neuron-digits/trainer.h"

namespace neuron::digits {
namespace {

constexpr size_t kRowsOfTraining = 1437;
constexpr float kTrainingRate = 0.05f;

class Training : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("NEURON_EMULATOR", "trn1.2xlarge", 1);
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    std::string error;
    digits = read_dataset(NEURON_SOURCE_DIR "/tools/compiler/kernels/digits/digits.csv.gz", error);
    ASSERT_EQ(error, "");
    ASSERT_GT(digits.size(), kRowsOfTraining);
    digits.resize(kRowsOfTraining);
  }
  static void TearDownTestSuite() { nrt_close(); }

  static std::unique_ptr<Trainer> trainer(uint8_t dtype, bool stochastic) {
    const auto neff = kernels::digits_training("digits_training", dtype, stochastic);
    auto result = std::make_unique<Trainer>();
    EXPECT_TRUE(neff.has_value());
    if (neff) {
      EXPECT_TRUE(result->load("digits_training", *neff)) << result->error();
    }
    return result;
  }
  static double loss_after(unsigned epochs, uint8_t dtype, bool stochastic) {
    const auto model = trainer(dtype, stochastic);
    for (unsigned epoch = 0; epoch < epochs; ++epoch) {
      EXPECT_TRUE(model->train_epoch(digits, epoch, kTrainingRate)) << model->error();
    }
    Evaluation evaluation;
    EXPECT_TRUE(model->evaluate(digits, evaluation)) << model->error();
    EXPECT_GT(evaluation.accuracy, 0.8);
    return evaluation.loss;
  }
  static uint64_t fingerprint(Trainer& model) {
    std::vector<uint8_t> bytes;
    EXPECT_TRUE(model.weights(bytes)) << model.error();
    uint64_t hash = 14695981039346656037u;
    for (const uint8_t byte : bytes) hash = (hash ^ byte) * 1099511628211u;
    return hash;
  }

  static inline std::vector<Digit> digits;
};

TEST_F(Training, StochasticRoundingFollowsFp32WhereNearestEvenStalls) {
  constexpr unsigned kEpochs = 40;
  const double fp32 = loss_after(kEpochs, NEURON_DTYPE_F32, false);
  const double nearest = loss_after(kEpochs, NEURON_DTYPE_BF16, false);
  const double stochastic = loss_after(kEpochs, NEURON_DTYPE_BF16, true);
  EXPECT_LT(std::abs(stochastic / fp32 - 1), 0.05) << fp32 << " " << stochastic;
  EXPECT_GT(nearest, 1.2 * fp32);
  EXPECT_GT(nearest, 1.2 * stochastic);
}

TEST_F(Training, GivesTheSameWeightsOnEveryHost) {
  // Bits of all weights after one epoch; the suite also runs on narrower SIMD paths.
  const std::array<uint64_t, 3> expected = {4269933115924375896u, 5573803593427985437u,
                                            15521206335660688133u};
  const std::array<std::pair<uint8_t, bool>, 3> steps = {
      {{NEURON_DTYPE_F32, false}, {NEURON_DTYPE_BF16, false}, {NEURON_DTYPE_BF16, true}}};
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto model = trainer(steps[i].first, steps[i].second);
    ASSERT_TRUE(model->train_epoch(digits, 0, kTrainingRate)) << model->error();
    EXPECT_EQ(fingerprint(*model), expected[i]) << "step " << i;
  }
}

TEST_F(Training, LeavesTheWeightsAloneAtRateZero) {
  for (const bool stochastic : {false, true}) {
    const auto model = trainer(NEURON_DTYPE_BF16, stochastic);
    const uint64_t before = fingerprint(*model);
    Evaluation evaluation;
    ASSERT_TRUE(model->evaluate(digits, evaluation)) << model->error();
    EXPECT_EQ(fingerprint(*model), before);
    EXPECT_NEAR(evaluation.loss, std::log(10.0), 0.5);
  }
}

TEST_F(Training, StartsFromOtherRandomWordsInEachStep) {
  // The same steps from the same weights, once behind others: the words for rounding have moved on.
  // (A core that changes to another model starts them anew, so the first is gone by then.)
  uint64_t at_once, later;
  {
    const auto model = trainer(NEURON_DTYPE_BF16, true);
    ASSERT_TRUE(model->train_epoch(digits, 0, kTrainingRate));
    at_once = fingerprint(*model);
  }
  {
    const auto model = trainer(NEURON_DTYPE_BF16, true);
    Evaluation evaluation;
    ASSERT_TRUE(model->evaluate(std::span(digits).first(model->batch()), evaluation));
    ASSERT_TRUE(model->train_epoch(digits, 0, kTrainingRate));
    later = fingerprint(*model);
  }
  EXPECT_NE(at_once, later);
}

TEST(LossCurves, AreWrittenAsRowsOfOneEpochAndAsPolylines) {
  const std::vector<LossCurve> curves = {{"fp32", {2.0, 0.5}}, {"bf16", {2.0, 1.0}}};
  EXPECT_EQ(csv_header(curves), "epoch,fp32,bf16\n");
  EXPECT_EQ(csv_row(curves, 1), "2,0.5,1\n");
  const std::string svg = draw_svg(curves, "losses");
  EXPECT_NE(svg.find("points=\"70.0,40.0 690.0,380.0 \""), std::string::npos) << svg;
  EXPECT_NE(svg.find("points=\"70.0,40.0 690.0,210.0 \""), std::string::npos);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(LossCurves, AreDrawnWhateverTheLosses) {
  for (const double loss :
       {0.0, -1.0, 1.0, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    const std::string drawn = draw_text({{"fp32", {loss}}, {"bf16", {loss}}});
    EXPECT_NE(drawn.find("f = fp32"), std::string::npos);
    EXPECT_NE(drawn.find('*'), std::string::npos);
  }
}

}  // namespace
}  // namespace neuron::digits
