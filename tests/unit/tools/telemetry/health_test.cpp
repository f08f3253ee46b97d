// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/health.h"

#include <gtest/gtest.h>

#include <vector>

namespace neuron::telemetry {
namespace {

TEST(Health, NamesEveryAilmentWithWhatToDo) {
  Device device;
  EXPECT_TRUE(ailments(device).empty());
  device.hardware.mem_ecc_uncorrected = 2;
  device.hardware.mem_ecc_corrected = 1;
  device.cores = {{.physical_core = 1, .hung_engines = {"pool"}}};
  device.links = {{.device = 3, .up = false}};
  const auto list = ailments(device);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].what, "2 uncorrectable memory errors");
  EXPECT_FALSE(list[1].fatal) << "corrected errors are no reason to stop";
  EXPECT_EQ(list[2].what, "core 1: pool hangs");
  EXPECT_EQ(list[3].what, "the link to device 3 is down");
  for (const Ailment& one : list) EXPECT_NE(one.action, "");
}

TEST(Health, IsThatOfADeviceWhoseAilmentsDoNotKeepItFromWorking) {
  Device device;
  device.state = DeviceState::kReady;
  device.hardware.mem_ecc_corrected = 1;
  EXPECT_TRUE(is_healthy(device));
  device.cores = {{.physical_core = 1, .hung_engines = {"pool"}}};
  EXPECT_FALSE(is_healthy(device));
  device.cores.clear();
  device.hardware.sram_ecc_uncorrected = 1;
  EXPECT_FALSE(is_healthy(device));
  device.hardware = {};
  device.links = {{.device = 3, .up = false}};
  EXPECT_FALSE(is_healthy(device));
}

TEST(Health, KnowsNoLinksOfADeviceThatDidNotAnswer) {
  Device device;
  EXPECT_EQ(links_down(device), std::vector<unsigned>()) << "an instance of one device has none";
  device.links = {{.device = 1, .up = false}, {.device = 4}, {.device = 3, .up = false}};
  EXPECT_EQ(links_down(device), (std::vector<unsigned>{1, 3}));
  EXPECT_EQ(links_down({.index = 0, .error = "it does not answer"}), std::nullopt);
}

}  // namespace
}  // namespace neuron::telemetry
