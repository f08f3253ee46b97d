// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ccom/plan/calibration.h"
#include "ccom/plan/planner.h"
#include "tests/support/files.h"
#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/job.h"

namespace neuron::nccom {
namespace {

using ::testing::HasSubstr;

class Calibrate : public ::testing::Test {
 protected:
  Calibrate() {
    options_ = parse({"--calibrate", folder_.path("prices.json"), "-r", "4", "--backend", "host"});
  }

  static Options parse(const std::vector<std::string>& arguments) {
    Usage usage;
    const auto options = parse_options(arguments, usage);
    EXPECT_TRUE(options) << options.error().sentence;
    return options ? *options : Options{};
  }

  // What the job's blocks would show on a host whose collectives take `slower` times as long as
  // the built-in prices say.
  std::vector<Block> measured(double slower) const {
    ccom::NodeProfile node = *ccom::Topology::profile("host");
    node.ranks_per_chip = std::max(node.ranks_per_chip, options_.ranks);
    ccom::Group group{{}, ccom::Topology(node, 1)};
    for (uint32_t r = 0; r < options_.ranks; ++r) group.places.push_back({0, 0, r, 0});
    const ccom::Planner planner(group, ccom::complete_costs({}, group.topology));
    std::vector<Block> blocks;
    for (const BlockOptions& block : calibration_blocks(options_)) {
      Block shown;
      shown.operation = block.operation;
      shown.type = block.type;
      for (uint64_t count = 1024; count <= 1 << 20; count *= 4) {
        ccom::Request request;
        request.operation = block.operation;
        request.type = block.type;
        const bool whole = block.operation == CCOM_ALL_REDUCE || block.operation == CCOM_BROADCAST;
        request.count = whole ? count : count / options_.ranks;
        Row row;
        row.count = count;
        row.size = count * 4;
        const auto ps = static_cast<double>(planner.predict(block.algorithm, request));
        row.times_us.assign(3, ps * 1e-6 * slower);
        shown.rows.push_back(row);
      }
      blocks.push_back(shown);
    }
    return blocks;
  }

  const test::Folder folder_;
  Options options_;
};

TEST_F(Calibrate, MeasuresOneAlgorithmOfOneOperationInEachPhase) {
  const auto job = make_job(options_);
  ASSERT_TRUE(job) << job.error().sentence;
  const auto blocks = calibration_blocks(options_);
  ASSERT_EQ(job->phases.size(), blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const PhaseBlock& made = job->phases[i].blocks.front();
    EXPECT_EQ(made.options.algorithm, blocks[i].algorithm);
    EXPECT_EQ(made.sizes.front(), 1024u);
    EXPECT_EQ(made.sizes.back(), 4u << 20);
    EXPECT_THAT(made.title, HasSubstr(algorithm_name(blocks[i].algorithm)));
  }
}

TEST_F(Calibrate, WritesPricesUnderWhichTheModelPredictsWhatWasMeasured) {
  const auto text = calibrate(options_, Backend::kHost, measured(3));
  ASSERT_TRUE(text) << text.error().sentence;
  EXPECT_THAT(*text, HasSubstr("built-in prices: 200 %"));
  EXPECT_THAT(*text, HasSubstr("CCOM_CALIBRATION=" + folder_.path()));
  const auto costs = ccom::load_calibration(folder_.path("prices.json"), ccom::Medium::kHostMemory);
  ASSERT_TRUE(costs) << costs.error().sentence;
  EXPECT_NEAR(costs->local_bytes_per_second, 10e9 / 3, 1e9);
  EXPECT_EQ(costs->remote_latency_ps, 0u);
  EXPECT_EQ(ccom::load_calibration(folder_.path("prices.json"), ccom::Medium::kDevice)->step_ps,
            0u);
}

TEST_F(Calibrate, SaysWhatFailedWhenTooLittleIsLeft) {
  auto blocks = measured(1);
  for (Block& block : blocks) {
    for (Row& row : block.rows) row.failure = "rank 1 is gone";
  }
  const auto text = calibrate(options_, Backend::kHost, blocks);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().sentence, HasSubstr("rank 1 is gone"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("prices.json")));
}

TEST_F(Calibrate, RefusesWhatItChoosesItself) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{"allr"},
                                               {"--algorithm", "ring"},
                                               {"--in-place"},
                                               {"--data-parallel-dimension", "2"}}) {
    std::vector<std::string> arguments = {"--calibrate", folder_.path("p"), "-r", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Usage usage;
    const auto options = parse_options(arguments, usage);
    ASSERT_FALSE(options) << more.front();
    EXPECT_THAT(options.error().sentence, HasSubstr("--calibrate chooses"));
  }
  Usage usage;
  const auto simulated =
      parse_options({"--calibrate", "p", "--simulate", "trn1.32xlarge", "--chips", "2"}, usage);
  ASSERT_FALSE(simulated);
  EXPECT_THAT(simulated.error().sentence, HasSubstr("--simulate computes"));
}

}  // namespace
}  // namespace neuron::nccom
