// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;
using test::FakeState;
using ::testing::HasSubstr;

TEST(Device, RefusesAChipThatItDoesNotKnowAndNamesThoseItDrives) {
  FakeState state;
  state.generation = 5;
  ndl::set_port(std::make_unique<test::FakePort>(state));
  const auto device = Device::open(0);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().status, NRT_FAILURE);
  EXPECT_EQ(device.error().sentence,
            "device 0 is a chip of generation 5; this runtime drives generations 1 (inf1), "
            "2 (trn1, inf2), 3 (trn2) and 4 (trn3)");
  ndl::release_port();
}

TEST(Device, NumbersItsCoresPhysicallyWithoutAMap) {
  FakeMachine second(2, {1, 0});
  EXPECT_EQ(second.device->physical_core(0), 0u) << "generation 2 is not asked for a map";
  EXPECT_EQ(second.state.count(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP), 0u);
}

TEST(Device, TakesThePhysicalNumbersOfItsDriversMap) {
  FakeMachine third(3, {4, 5, 6, 7, 0, 1, 2, 3});
  EXPECT_EQ(third.device->physical_core(0), 4u);
  EXPECT_EQ(third.device->physical_core(7), 3u);
  EXPECT_EQ(third.device->generation(), 3u);
  EXPECT_EQ(third.device->index(), 0);
}

TEST(Device, KeepsPlainNumbersWhereTheMapIsShortOrWrong) {
  {
    FakeMachine short_map(3, {1, 0});
    EXPECT_EQ(short_map.device->physical_core(0), 1u);
    EXPECT_EQ(short_map.device->physical_core(1), 0u);
    EXPECT_EQ(short_map.device->physical_core(2), 2u);
  }
  FakeMachine wrong(3, {8, 7, 2, 3, 4, 5, 6, 1});
  EXPECT_EQ(wrong.device->physical_core(0), 0u) << "there is no core 8";
  EXPECT_EQ(wrong.device->physical_core(1), 7u);
}

// A driver's map has 128 entries: the cores of 16 devices.
TEST(Device, BehindTheMapsLastHasThePhysicalNumbersOfTheDeviceSixteenBeforeIt) {
  FakeState state;
  state.generation = 3;
  for (uint32_t entry = 0; entry < NEURON_NC_MAP_MAX_ENTRIES; ++entry) {
    state.core_map.push_back(entry / 8 == 5 ? 7 - entry % 8 : entry % 8);
  }
  ndl::set_port(std::make_unique<test::FakePort>(state));
  for (const auto& [index, first] : {std::pair{4, 0u}, {5, 7u}, {20, 0u}, {21, 7u}}) {
    const auto device = Device::open(index);
    ASSERT_TRUE(device) << device.error().sentence;
    EXPECT_EQ((*device)->physical_core(0), first) << index;
    EXPECT_EQ((*device)->physical_core(7), 7 - first) << index;
  }
  ndl::release_port();
}

TEST(Device, WritesSeveralRegistersInTheirOrder) {
  FakeMachine machine;
  machine.state.written.clear();
  ASSERT_TRUE(machine.device->write_registers({{0x20, 1}, {0x10, 2}, {0x20, 3}}));
  EXPECT_EQ(machine.state.written,
            (std::vector<std::pair<uint64_t, uint32_t>>{{0x20, 1}, {0x10, 2}, {0x20, 3}}));
}

TEST(Device, AddressesARegisterByItsOffsetBehindTheBar) {
  FakeMachine machine;
  machine.state.registers[0x1234] = 42;
  EXPECT_EQ(*machine.device->read_register(0x1234), 42u);
  ASSERT_TRUE(machine.device->write_register(0x88, 7));
  EXPECT_EQ(machine.state.registers[0x88], 7u);
}

TEST(Device, WritesSeveralRegistersInTheirOrderWithOneCall) {
  FakeMachine machine;
  machine.state.written.clear();
  const size_t before = machine.state.count(NEURON_IOCTL_BAR_WRITE);
  ASSERT_TRUE(machine.device->write_registers({{0x88, 7}, {0x40, 8}, {0x88, 9}}));
  EXPECT_EQ(machine.state.written,
            (std::vector<std::pair<uint64_t, uint32_t>>{{0x88, 7}, {0x40, 8}, {0x88, 9}}));
  EXPECT_EQ(machine.state.count(NEURON_IOCTL_BAR_WRITE) - before, 1u);
}

TEST(Device, PostsSeveralRegistersInTheirOrderWithOneCallWhereTheDriverHasNoOtherWay) {
  FakeMachine machine;
  machine.state.written.clear();
  const size_t before = machine.state.count(NEURON_IOCTL_BAR_WRITE);
  ASSERT_TRUE(machine.device->post_registers({{0x88, 7}, {0x40, 8}, {0x88, 9}}));
  EXPECT_EQ(machine.state.written,
            (std::vector<std::pair<uint64_t, uint32_t>>{{0x88, 7}, {0x40, 8}, {0x88, 9}}));
  EXPECT_EQ(machine.state.count(NEURON_IOCTL_BAR_WRITE) - before, 1u);
  EXPECT_TRUE(machine.device->check_posted());
  machine.state.failing = {{NEURON_IOCTL_BAR_WRITE, -EIO}};
  const auto failed = machine.device->post_registers({{0x44, 5}});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().sentence,
              HasSubstr("writing 1 registers, the first of which is 0x44, of device 0"));
}

TEST(Device, PostsNoneOfMoreRegistersThanCanBePosted) {
  FakeMachine machine;
  machine.state.written.clear();
  const auto failed = machine.device->post_registers({{0x40, 1}, {0x44, 2}, {0x48, 3}, {0x4c, 4}});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().sentence, HasSubstr("writing 4 registers"));
  EXPECT_FALSE(machine.device->post_registers({}));
  EXPECT_TRUE(machine.state.written.empty());
}

TEST(Device, SaysWhichRegisterCouldNotBeReachedAndWhatWasToBeWritten) {
  FakeMachine machine;
  machine.state.failing = {{NEURON_IOCTL_BAR_READ, -EIO}, {NEURON_IOCTL_BAR_WRITE, -EIO}};
  const auto read = machine.device->read_register(0x40);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().status, NRT_HW_ERROR);
  EXPECT_THAT(read.error().sentence, HasSubstr("reading register 0x40 of device 0"));
  const auto write = machine.device->write_register(0x44, 0x5);
  ASSERT_FALSE(write);
  EXPECT_THAT(write.error().sentence, HasSubstr("writing 0x5 to register 0x44 of device 0"));
}

}  // namespace
}  // namespace neuron::runtime
