// SPDX-License-Identifier: Apache-2.0
#include "ccom/plan/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/setting.h"

namespace neuron::ccom {
namespace {

using testing::HasSubstr;

class Calibration : public testing::Test {
 protected:
  std::string refused(const std::string& text) {
    test::write_file(file_, text);
    const auto costs = load_calibration(file_, Medium::kHostMemory);
    EXPECT_FALSE(costs);
    return costs ? "" : costs.error().sentence;
  }

  const test::Folder folder_;
  const std::string file_ = folder_.path("prices.json");
};

TEST_F(Calibration, ComesBackAsItWasSavedForEachMedium) {
  CostParameters host;
  host.local_latency_ps = 123'456;
  host.reduce_bytes_per_second = 7.5e9;
  ASSERT_TRUE(save_calibration(file_, host));
  CostParameters device;
  device.medium = Medium::kDevice;
  device.step_ps = 77;
  ASSERT_TRUE(save_calibration(file_, device));
  const auto loaded = load_calibration(file_, Medium::kHostMemory);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->local_latency_ps, 123'456u);
  EXPECT_EQ(loaded->reduce_bytes_per_second, 7.5e9);
  EXPECT_EQ(loaded->step_ps, 0u);
  EXPECT_EQ(load_calibration(file_, Medium::kDevice)->step_ps, 77u);
}

TEST_F(Calibration, PricesMessagesThroughTheKernelUnlessSomebodyMeasuredThem) {
  for (const char* provider : {"stream on 10.0.0.1", "tcp;ofi_rxm on eth0", "net on eth0"}) {
    const CostParameters costs = network_costs({}, provider);
    EXPECT_EQ(costs.remote_message_ps, 16'000'000u) << provider;
    EXPECT_GT(costs.remote_latency_ps, 0u);
    EXPECT_LT(costs.remote_bytes_per_second, 12.5e9);
  }
  for (const char* provider : {"efa on rdmap0s31", ""}) {
    const CostParameters costs = network_costs({}, provider);
    EXPECT_EQ(costs.remote_message_ps, 0u) << provider;
    EXPECT_EQ(costs.remote_latency_ps, 0u);
    EXPECT_EQ(costs.remote_bytes_per_second, 0);
  }
  CostParameters measured;
  measured.remote_latency_ps = 30'000'000;  // contains what a message costs
  const CostParameters costs = network_costs(measured, "stream on 10.0.0.1");
  EXPECT_EQ(costs.remote_latency_ps, 30'000'000u);
  EXPECT_EQ(costs.remote_message_ps, 0u);
}

TEST_F(Calibration, RefusesFilesThatAreNone) {
  EXPECT_THAT(refused("{"), HasSubstr("no JSON"));
  EXPECT_THAT(refused("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refused("{\"version\": 2}"), HasSubstr("\"version\" is 2"));
  EXPECT_THAT(refused("{\"version\": 1, \"host\": 3}"), HasSubstr("\"host\""));
  EXPECT_THAT(refused("{\"version\": 1, \"host\": {\"speed\": 3}}"), HasSubstr("host.speed"));
  EXPECT_THAT(refused("{\"version\": 1, \"host\": {\"step_ps\": -1}}"), HasSubstr("host.step_ps"));
  EXPECT_THAT(refused("{\"version\": 1, \"host\": {\"step_ps\": 1e300}}"), HasSubstr("step_ps"));
  EXPECT_THAT(refused(std::string(100'000, ' ')), HasSubstr("65536"));
  const auto missing = load_calibration(folder_.path("none"), Medium::kHostMemory);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().sentence, HasSubstr("/none"));
}

TEST_F(Calibration, IsFoundByTheEnvironment) {
  CostParameters host;
  host.step_ps = 5;
  ASSERT_TRUE(save_calibration(file_, host));
  EXPECT_EQ(calibration_of_environment(Medium::kHostMemory)->step_ps, 0u);
  const test::Setting calibration("CCOM_CALIBRATION", file_);
  EXPECT_EQ(calibration_of_environment(Medium::kHostMemory)->step_ps, 5u);
}

TEST_F(Calibration, FitsLatencyAndRate) {
  std::vector<Sample> samples;
  for (uint64_t bytes = 8; bytes <= 1 << 20; bytes *= 4) {
    samples.push_back({bytes, 2e-6 + static_cast<double>(bytes) / 5e9});
  }
  const auto line = fit(samples);
  ASSERT_TRUE(line);
  EXPECT_NEAR(static_cast<double>(line->latency_ps), 2e6, 10);
  EXPECT_NEAR(line->bytes_per_second, 5e9, 1e3);
  EXPECT_FALSE(fit({{8, 1e-6}}));
  EXPECT_FALSE(fit({{8, 1e-6}, {16, 1e-7}}));
}

TEST_F(Calibration, FillsWhatIsNotKnownFromTheTopology) {
  NodeProfile node;
  node.nic = {25e9, 9'000'000};
  node.link = {64e9, 1'000'000};
  CostParameters costs;
  costs.medium = Medium::kDevice;
  costs.step_ps = 3;
  const CostParameters full = complete_costs(costs, Topology(node, 2));
  EXPECT_EQ(full.remote_latency_ps, 9'000'000u);
  EXPECT_EQ(full.local_bytes_per_second, 64e9);
  EXPECT_EQ(full.step_ps, 3u);
  EXPECT_GT(full.reduce_bytes_per_second, 0);
}

}  // namespace
}  // namespace neuron::ccom
