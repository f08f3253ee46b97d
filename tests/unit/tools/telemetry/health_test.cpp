// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/health.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace neuron::telemetry {
namespace {

// Every kind of ailment that a device can have, one at a time.
TEST(Health, NamesEveryAilmentWithWhatToDo) {
  const auto with = [](auto change) {
    Device device;
    device.index = 2;
    device.state = DeviceState::kReady;
    change(device);
    return device;
  };
  const struct {
    Device device;
    std::string what;
    bool fatal;
  } cases[] = {
      {with([](Device& d) { d.state = DeviceState::kResetting; }), "it is being reset", true},
      {with([](Device& d) { d.state = DeviceState::kInvalid; }), "its last reset failed", true},
      {with([](Device& d) { d.state = DeviceState::kOff; }),
       "it does not answer: every register reads all ones", true},
      {with([](Device& d) { d.error = "device 2 cannot be opened"; }), "device 2 cannot be opened",
       true},
      {with([](Device& d) { d.hardware.sram_ecc_uncorrected = 1; }), "1 uncorrectable SRAM error",
       true},
      {with([](Device& d) { d.hardware.mem_ecc_uncorrected = 2; }), "2 uncorrectable memory errors",
       true},
      {with([](Device& d) { d.hardware.mem_ecc_repairable_uncorrected = 1; }),
       "1 repairable memory error", true},
      {with([](Device& d) { d.hardware.mem_ecc_corrected = 1; }), "1 corrected memory error",
       false},
      {with([](Device& d) { d.hardware.sram_ecc_corrected = 3; }), "3 corrected SRAM errors",
       false},
      {with([](Device& d) { d.cores = {{.physical_core = 1, .hung_engines = {"pool"}}}; }),
       "core 1: pool hangs", true},
      {with([](Device& d) {
         d.cores = {{.physical_core = 0, .hung_engines = {"pe", "sp"}}};
       }),
       "core 0: pe, sp hang", true},
      {with([](Device& d) {
         d.cores.resize(1);
         d.cores[0].failed_resets = 1;
       }),
       "core 0: 1 failed reset", false},
      {with([](Device& d) { d.links = {{.device = 3, .up = false}}; }),
       "the link to device 3 is down", true},
      {with([](Device& d) { d.faults = {"hbm uncorrectable"}; }),
       "planted fault: hbm uncorrectable", false},
  };
  for (const auto& one : cases) {
    const std::vector<Ailment> list = ailments(one.device);
    ASSERT_EQ(list.size(), 1u) << one.what;
    EXPECT_EQ(list[0].what, one.what);
    EXPECT_EQ(list[0].fatal, one.fatal) << one.what;
    EXPECT_NE(list[0].action, "") << one.what;
    EXPECT_EQ(is_healthy(one.device), !one.fatal) << one.what;
  }
  EXPECT_TRUE(ailments(with([](Device&) {})).empty());
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
