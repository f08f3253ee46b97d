// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/bus.h"

#include <gtest/gtest.h>

#include "driver/emulator/chip/register_target.h"
#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

TEST(Bus, RoutesEachEndOfARangeAndNothingBeside) {
  Bus bus;
  StoredRegisters odd(0x7000);
  StoredRegisters next(0x7000);
  const uint64_t base = NEURON_V2_BAR0_DEVICE_BASE + 0x30400000;
  bus.attach(base + 0x7000, 0x7000, &next, "next");
  bus.attach(base, 0x7000, &odd, "odd");
  EXPECT_TRUE(bus.write32(base, 1, Access{}));
  EXPECT_TRUE(bus.write32(base + 0x6FFC, 2, Access{}));
  EXPECT_TRUE(bus.write32(base + 0x7000, 3, Access{}));
  EXPECT_EQ(odd.load(0), 1u);
  EXPECT_EQ(odd.load(0x6FFC), 2u);
  EXPECT_EQ(next.load(0), 3u);
  EXPECT_FALSE(bus.write32(base - 4, 4, Access{}));
  EXPECT_FALSE(bus.write32(base + 0xE000, 4, Access{}));
  EXPECT_STREQ(bus.name_of(base + 0x6FFF), "odd");
  EXPECT_STREQ(bus.name_of(base + 0xE000), "unmapped");
}

TEST(Bus, RefusesAnAccessThatLeavesItsRange) {
  Bus bus;
  StoredRegisters small(0x40000);
  const uint64_t base = NEURON_V2_BAR0_DEVICE_BASE + 0x30000000;
  bus.attach(base, 0x40000, &small, "small");
  std::array<std::byte, 8> bytes = {};
  EXPECT_FALSE(bus.write(base + 0x3FFFC, bytes, Access{}));
  EXPECT_EQ(small.load(0x3FFFC), 0u);
  EXPECT_EQ(bus.direct(base, 4), nullptr);
}

TEST(Bus, ReachesBothStacksAndTheHostByAddress) {
  Machine machine;
  std::byte* host = machine.host.add(0x5000, 64);
  EXPECT_EQ(machine.bus.direct(NEURON_V2_HOST_BASE + 0x5010, 48), host + 16);
  EXPECT_EQ(machine.bus.direct(NEURON_V2_HOST_BASE + 0x5010, 49), nullptr);
  EXPECT_EQ(machine.bus.direct(NEURON_V2_HBM_STRIDE + 8, 8),
            machine.hbm->direct(NEURON_V2_HBM_STRIDE + 8, 8));
  EXPECT_EQ(machine.bus.direct(Machine::kStack - 4, 8), nullptr);
  EXPECT_EQ(machine.bus.direct(UINT64_MAX, 1), nullptr);
  EXPECT_EQ(machine.bus.direct(NEURON_V2_HOST_BASE * 2, 1), nullptr);
}

TEST(RegisterTarget, AppliesABurstInAscendingOrderAndRefusesOddAccesses) {
  StoredRegisters registers(0x100);
  std::array<uint32_t, 3> words = {7, 8, 9};
  EXPECT_TRUE(registers.write(0x10, std::as_bytes(std::span(words)), Access{}));
  EXPECT_EQ(registers.load(0x10), 7u);
  EXPECT_EQ(registers.load(0x18), 9u);
  EXPECT_FALSE(registers.write(0x12, std::as_bytes(std::span(words)), Access{}));
  EXPECT_FALSE(registers.write(0x10, std::as_bytes(std::span(words)).first(6), Access{}));
  EXPECT_FALSE(registers.write(0xFC, std::as_bytes(std::span(words)), Access{}));
  EXPECT_EQ(registers.load(0xFC), 0u);
}

}  // namespace
}  // namespace neuron::chip
