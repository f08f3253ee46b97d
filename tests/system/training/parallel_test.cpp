// SPDX-License-Identifier: Apache-2.0
// Trains the digits model on parts of each batch: on one core, which adds up the gradients of the
// parts in their order, and on several cores, which add up theirs by an all-reduce.
#include <gtest/gtest.h>
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/system/training/step_model.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/neuron-digits/dataset.h"

namespace neuron::digits {
namespace {

constexpr uint32_t kBatch = kernels::kDigitsTrainingBatch;
constexpr float kRate = 0.05f;
constexpr size_t kTrainingRows = 1437;

class ParallelTraining : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("NEURON_EMULATOR", "trn1.32xlarge", 1);
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    std::string error;
    digits = read_dataset(NEURON_SOURCE_DIR "/tools/compiler/kernels/digits/digits.csv.gz", error);
    ASSERT_EQ(error, "");
    ASSERT_GT(digits.size(), kTrainingRows);
  }
  static void TearDownTestSuite() { nrt_close(); }

  static std::vector<uint8_t> neff(const kernels::Neff& built) {
    EXPECT_TRUE(built.has_value());
    return built ? *built : std::vector<uint8_t>();
  }

  // Weights after `epochs` on one core that has a part of each batch at a time.
  static Weights accumulated(unsigned parts, unsigned epochs) {
    const uint32_t rows = kBatch / parts;
    StepModel first(neff(kernels::digits_gradients("first", rows, false)));
    StepModel next(neff(kernels::digits_gradients("next", rows, true)));
    StepModel update(neff(kernels::digits_update("update")));
    Weights weights = Weights::initial();
    for_each_batch(digits, kTrainingRows, kBatch, epochs, [&](const std::vector<Digit>& batch) {
      std::vector<float> sum;
      for (unsigned part = 0; part < parts; ++part) {
        StepModel& model = part == 0 ? first : next;
        model.write_weights(weights);
        model.write_digits(batch, part * rows, rows);
        if (part > 0) model.write("sum", sum);
        model.execute();
        sum = model.read(part == 0 ? "gradients" : "sum_next");
      }
      update.write_weights(weights);
      update.write("gradients", sum);
      update.write("rate", {kRate});
      update.execute();
      weights = update.read_weights("_next");
    });
    return weights;
  }
  // Weights of each core after `epochs` on that many cores.
  static std::vector<Weights> parallel(unsigned cores, unsigned epochs, float rate = kRate) {
    const uint32_t rows = kBatch / cores;
    const std::vector<uint8_t> step = neff(kernels::digits_parallel("parallel", rows));
    std::vector<Weights> weights(cores, Weights::initial());
    std::vector<std::thread> threads;
    for (uint32_t core = 0; core < cores; ++core) {
      threads.emplace_back([&, core] {
        StepModel model(step, core, cores);
        if (!model.loaded()) return;
        for_each_batch(digits, kTrainingRows, kBatch, epochs, [&](const std::vector<Digit>& batch) {
          model.write_weights(weights[core]);
          model.write_digits(batch, core * rows, rows);
          model.write("rate", {rate});
          model.execute();
          weights[core] = model.read_weights("_next");
        });
      });
    }
    for (std::thread& thread : threads) thread.join();
    return weights;
  }
  static Weights whole(unsigned epochs) {
    StepModel step(neff(kernels::digits_training("whole", NEURON_DTYPE_F32, false)));
    Weights weights = Weights::initial();
    for_each_batch(digits, kTrainingRows, kBatch, epochs, [&](const std::vector<Digit>& batch) {
      step.write_weights(weights);
      step.write_digits(batch, 0, kBatch);
      step.write("rate", {kRate});
      step.execute();
      weights = step.read_weights("_next");
    });
    return weights;
  }

  static inline std::vector<Digit> digits;
};

TEST_F(ParallelTraining, PartsOfABatchGiveTheWeightsOfTheWholeButForRounding) {
  const Weights expected = whole(1);
  for (const unsigned parts : {1u, 2u, 8u}) {
    EXPECT_LT(accumulated(parts, 1).distance(expected), 1e-5) << parts << " parts";
  }
  EXPECT_GT(Weights::initial().distance(expected), 1e-3);
}

TEST_F(ParallelTraining, TwoAndEightCoresGiveTheBitsOfOneThatAddsUpInTheOrderOfTheRanks) {
  for (const unsigned cores : {2u, 8u}) {
    const Weights expected = accumulated(cores, 1);
    const std::vector<Weights> weights = parallel(cores, 1);
    for (unsigned core = 0; core < cores; ++core) {
      EXPECT_EQ(weights[core], expected) << "core " << core << " of " << cores;
    }
  }
}

TEST_F(ParallelTraining, EightCoresLearnToReadDigits) {
  const std::vector<Weights> weights = parallel(8, 20, 0.8f);
  EXPECT_LT(Weights::initial().accuracy(digits, kTrainingRows), 0.4);
  EXPECT_GE(weights[0].accuracy(digits, kTrainingRows), 0.90);
  EXPECT_EQ(weights[7], weights[0]);
}

}  // namespace
}  // namespace neuron::digits
