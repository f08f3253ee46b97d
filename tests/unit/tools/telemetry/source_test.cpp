// SPDX-License-Identifier: Apache-2.0
// What a host with emulated devices tells of them; tests/system/telemetry counts what programs do.
#include "tools/telemetry/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/setting.h"

namespace neuron::telemetry {
namespace {

using ::testing::IsEmpty;

TEST(HostSource, TellsWhatAnEmulatedDeviceIs) {
  const test::Setting emulator("NEURON_EMULATOR", "trn1.2xlarge");
  const Snapshot snapshot = open_host_source()->take({}, std::chrono::seconds(10));
  EXPECT_THAT(snapshot.error, IsEmpty());
  EXPECT_EQ(snapshot.versions.backend, "embedded");
  ASSERT_EQ(snapshot.devices.size(), 1u);
  const Device& device = snapshot.devices[0];
  EXPECT_EQ(device.index, 0u);
  EXPECT_EQ(device.name, "Trainium1");
  EXPECT_EQ(device.architecture, "NDv2");
  EXPECT_EQ(device.core_architecture, "NCv2");
  EXPECT_THAT(device.error, IsEmpty());
  EXPECT_EQ(device.state, DeviceState::kReady);
  EXPECT_EQ(device.logical_size, 1u);
  EXPECT_EQ(device.cores.size(), 2u);
  EXPECT_EQ(device.memory_bytes, 32ull << 30);
  EXPECT_THAT(device.links, IsEmpty());
  EXPECT_THAT(device.faults, IsEmpty());
  EXPECT_FALSE(device.cpu_affinity.empty());
}

}  // namespace
}  // namespace neuron::telemetry
