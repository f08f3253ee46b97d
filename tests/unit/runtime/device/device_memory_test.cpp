// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;
using ::testing::HasSubstr;

std::unique_ptr<DeviceMemory> allocate(FakeMachine& machine, const MemoryRequest& request) {
  auto memory = DeviceMemory::allocate(*machine.device, request);
  if (!memory) throw std::runtime_error(memory.error().sentence);
  return std::move(*memory);
}

TEST(DeviceMemory, AsksForTheHbmOfItsCore) {
  FakeMachine machine(3);
  const auto memory = allocate(
      machine,
      {.size = 100, .alignment = 256, .core = 5, .category = NEURON_MEMALLOC_TYPE_CODE_DEVICE});
  const auto& request = machine.state.memory.begin()->second.request;
  EXPECT_EQ(request.size, 100u);
  EXPECT_EQ(request.align, 256u);
  EXPECT_EQ(request.host_memory, 0u);
  EXPECT_EQ(request.dram_channel, 2u) << "two cores share an HBM";
  EXPECT_EQ(request.nc_id, 5u);
  EXPECT_EQ(request.mem_type, static_cast<uint32_t>(NEURON_MEMALLOC_TYPE_CODE_DEVICE));
  EXPECT_EQ(memory->address(), machine.state.memory.begin()->second.address);
  EXPECT_EQ(memory->size(), 100u);
  EXPECT_EQ(memory->core(), 5u);
  EXPECT_FALSE(memory->host());
}

TEST(DeviceMemory, OfTheHostHasNeitherAlignmentNorHbm) {
  FakeMachine machine;
  const auto memory = allocate(machine, {.size = 64, .alignment = 4096, .host = true, .core = 1});
  const auto& request = machine.state.memory.begin()->second.request;
  EXPECT_EQ(request.align, 0u);
  EXPECT_EQ(request.host_memory, 1u);
  EXPECT_EQ(request.dram_channel, 0u);
  EXPECT_EQ(request.nc_id, 1u);
  EXPECT_TRUE(memory->host());
}

TEST(DeviceMemory, IsFreedWithItsObject) {
  FakeMachine machine;
  auto memory = allocate(machine, {.size = 64});
  EXPECT_EQ(machine.state.memory.size(), 1u);
  memory.reset();
  EXPECT_EQ(machine.state.memory.size(), 0u);
}

TEST(DeviceMemory, ThatIsShortSaysForWhomAndHowMuch) {
  FakeMachine machine;
  machine.state.failing[NEURON_IOCTL_MEM_ALLOC_V2MT64] = -ENOMEM;
  auto memory = DeviceMemory::allocate(*machine.device, {.size = 5, .core = 1, .purpose = "tea"});
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().status, NRT_RESOURCE);
  EXPECT_THAT(memory.error().sentence,
              HasSubstr("allocating 5 bytes of HBM for tea on device 0 core 1"));
  memory = DeviceMemory::allocate(*machine.device, {.size = 5, .host = true, .purpose = "tea"});
  EXPECT_THAT(memory.error().sentence, HasSubstr("allocating 5 bytes of host memory for tea"));
}

TEST(DeviceMemory, MovesBytesAtTheirOffsets) {
  FakeMachine machine;
  const auto memory = allocate(machine, {.size = 16});
  const std::array<uint8_t, 4> four = {1, 2, 3, 4};
  ASSERT_TRUE(memory->write(four.data(), 2, 4));
  std::array<uint8_t, 6> back{};
  ASSERT_TRUE(memory->read(back.data(), 1, 6));
  EXPECT_EQ(back, (std::array<uint8_t, 6>{0xAA, 1, 2, 3, 4, 0xAA}));
  ASSERT_TRUE(memory->fill(3, 2, 9));
  ASSERT_TRUE(memory->read(back.data(), 1, 6));
  EXPECT_EQ(back, (std::array<uint8_t, 6>{0xAA, 1, 9, 9, 4, 0xAA}));
  const auto other = allocate(machine, {.size = 16});
  ASSERT_TRUE(other->copy(*memory, 1, 5, 3));
  std::array<uint8_t, 5> copied{};
  ASSERT_TRUE(other->read(copied.data(), 4, 5));
  EXPECT_EQ(copied, (std::array<uint8_t, 5>{0xAA, 0xAA, 1, 9, 0xAA}));
}

TEST(DeviceMemory, DoesNotCallTheDriverForNothing) {
  FakeMachine machine;
  const auto memory = allocate(machine, {.size = 16});
  machine.state.calls.clear();
  EXPECT_TRUE(memory->write(nullptr, 16, 0));
  EXPECT_TRUE(memory->read(nullptr, 16, 0));
  EXPECT_TRUE(memory->fill(16, 0, 1));
  EXPECT_TRUE(memory->copy(*memory, 0, 16, 0));
  EXPECT_TRUE(machine.state.calls.empty());
}

TEST(DeviceMemory, AFailedCopySaysWhereAndHowMuch) {
  FakeMachine machine;
  const auto memory = allocate(machine, {.size = 16});
  machine.state.failing = {{NEURON_IOCTL_MEM_BUF_ZEROCOPY64, -EIO},
                           {NEURON_IOCTL_MEMSET64, -EIO},
                           {NEURON_IOCTL_MEM_COPY64, -ETIMEDOUT}};
  uint64_t word = 0;
  const auto at = base::format("8 bytes at device address {:#x}", memory->address() + 4);
  const auto written = memory->write(&word, 4, 8);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().status, NRT_HW_ERROR);
  EXPECT_THAT(written.error().sentence, HasSubstr("writing " + at));
  EXPECT_THAT(memory->read(&word, 4, 8).error().sentence, HasSubstr("reading " + at));
  EXPECT_THAT(memory->fill(4, 8, 0).error().sentence, HasSubstr("filling " + at));
  const auto copied = memory->copy(*memory, 0, 4, 8);
  EXPECT_EQ(copied.error().status, NRT_TIMEOUT);
  EXPECT_THAT(copied.error().sentence, HasSubstr("copying " + at));
}

TEST(DeviceMemory, IsMappedOnce) {
  FakeMachine machine;
  const auto memory = allocate(machine, {.size = 16, .host = true});
  const auto first = memory->map();
  ASSERT_TRUE(first);
  (*first)[3] = std::byte{5};
  EXPECT_EQ(*memory->map(), *first);
  uint8_t byte = 0;
  ASSERT_TRUE(memory->read(&byte, 3, 1));
  EXPECT_EQ(byte, 5);
}

}  // namespace
}  // namespace neuron::runtime
