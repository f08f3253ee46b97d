// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/pci_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "driver/emulator/transport/vfio_user/pci_config_space.h"
#include "hw/address_map.h"
#include "hw/udma.h"

namespace neuron::transport {
namespace {

PciLayout layout_of(uint16_t device, uint8_t revision = 1) {
  PciLayout layout;
  std::string error;
  EXPECT_TRUE(find_pci_layout(device, revision, 0, layout, error)) << error;
  return layout;
}

template <typename T>
T get(const PciConfigSpace& space, uint64_t offset) {
  T value{};
  EXPECT_TRUE(space.read(offset, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

template <typename T>
bool put(PciConfigSpace& space, uint64_t offset, T value) {
  bool reset = false;
  EXPECT_TRUE(space.write(offset, std::as_bytes(std::span(&value, 1)), reset));
  return reset;
}

TEST(PciLayout, HasTheBarsOfEachChip) {
  const PciLayout trn1 = layout_of(NEURON_PCI_DEVICE_TRN1);
  EXPECT_EQ(trn1.register_bar, 0u);
  EXPECT_EQ(trn1.register_bytes, uint64_t{1} << 30);
  EXPECT_EQ(trn1.memory_bytes(), uint64_t{32} << 30);
  EXPECT_EQ(trn1.engines.size(), 34u);
  const PciLayout trn2 = layout_of(NEURON_PCI_DEVICE_TRN2);
  EXPECT_EQ(trn2.register_bytes, uint64_t{4} << 30);
  EXPECT_EQ(trn2.memory_bytes(), uint64_t{256} << 30);
  EXPECT_EQ(trn2.engines.size(), 132u);
  EXPECT_EQ(layout_of(NEURON_PCI_DEVICE_INF2).memory_bytes(), uint64_t{32} << 30);
}

TEST(PciLayout, HasItsRegistersInBarTwoForDriversThatExpectASimulator) {
  EXPECT_EQ(layout_of(NEURON_PCI_DEVICE_TRN1, 255).register_bar, 2u);
  EXPECT_EQ(layout_of(NEURON_PCI_DEVICE_TRN1, 240).register_bar, 0u);
}

TEST(PciLayout, NumbersFunctionsAsTheDriverWill) {
  // The driver's numbers by routing id, as it documents them for 16 functions.
  const unsigned trn1[] = {0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10};
  const unsigned trn2[] = {0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10};
  std::set<uint32_t> seen;
  for (unsigned index = 0; index < 64; ++index) {
    const uint32_t id = routing_id_of(NEURON_PCI_DEVICE_TRN1, index);
    EXPECT_EQ(id / 16 * 16 + trn1[id % 16], index);
    const uint32_t other = routing_id_of(NEURON_PCI_DEVICE_TRN2, index);
    EXPECT_EQ(other / 16 * 16 + trn2[other % 16], index);
    EXPECT_EQ(routing_id_of(NEURON_PCI_DEVICE_INF2, index), index);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 64u);
}

TEST(PciLayout, KnowsDoorbellsFromOtherRegisters) {
  for (const uint16_t device : {NEURON_PCI_DEVICE_TRN1, NEURON_PCI_DEVICE_TRN2}) {
    const PciLayout layout = layout_of(device);
    for (const uint64_t engine : layout.engines) {
      EXPECT_TRUE(layout.is_doorbell(engine + 0x1038));
      EXPECT_TRUE(layout.is_doorbell(engine + 0x30038));
      EXPECT_FALSE(layout.is_doorbell(engine + 0x1034));
      EXPECT_FALSE(layout.is_doorbell(engine + 0x38));
      EXPECT_FALSE(layout.is_doorbell(engine + 0x31038));
    }
    EXPECT_FALSE(layout.is_doorbell(0));
    EXPECT_FALSE(layout.is_doorbell(layout.register_bytes - 4));
  }
}

TEST(PciLayout, TranslatesTheWindowsOfCoresOnly) {
  const PciLayout layout = layout_of(NEURON_PCI_DEVICE_TRN1);
  uint64_t address = 0;
  ASSERT_TRUE(layout.core_address(NEURON_V2_CORE_WINDOW(1) + 12, address));
  EXPECT_EQ(address, NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(1) + 12);
  EXPECT_FALSE(layout.core_address(NEURON_V2_MISC_RAM, address));
}

TEST(PciLayout, RefusesUnknownChipsAndMemoryThatNoDriverWouldFind) {
  PciLayout layout;
  std::string error;
  EXPECT_FALSE(find_pci_layout(0x7064, 1, 0, layout, error));
  EXPECT_NE(error.find("28772"), std::string::npos) << error;
  EXPECT_FALSE(find_pci_layout(NEURON_PCI_DEVICE_TRN1, 1, 1 << 30, layout, error));
  EXPECT_FALSE(find_pci_layout(NEURON_PCI_DEVICE_TRN2, 255, 3 << 28, layout, error));
  ASSERT_TRUE(find_pci_layout(NEURON_PCI_DEVICE_TRN2, 255, uint64_t{2} << 30, layout, error));
  EXPECT_EQ(layout.memory_bytes(), uint64_t{8} << 30);
}

TEST(PciConfigSpace, IdentifiesTheFunction) {
  const PciConfigSpace space(layout_of(NEURON_PCI_DEVICE_INF2, 240));
  EXPECT_EQ(get<uint32_t>(space, 0), 0x72641D0Fu);
  EXPECT_EQ(get<uint8_t>(space, 8), 240u);
  EXPECT_EQ(get<uint16_t>(space, 10), 0x0880u);
  EXPECT_EQ(get<uint8_t>(space, 14), 0u);
  EXPECT_EQ(get<uint32_t>(space, 0x2C), 0x72641D0Fu);
  // One capability, PCI Express, and the list ends.
  EXPECT_NE(get<uint16_t>(space, 6) & 0x10, 0);
  const uint8_t capability = get<uint8_t>(space, 0x34);
  EXPECT_EQ(get<uint16_t>(space, capability), 0x0010u);
  EXPECT_EQ(get<uint32_t>(space, 0x100), 0u);
}

TEST(PciConfigSpace, AnswersBarSizing) {
  PciConfigSpace space(layout_of(NEURON_PCI_DEVICE_TRN1));
  put<uint64_t>(space, 0x10, ~uint64_t{0});
  EXPECT_EQ(get<uint64_t>(space, 0x10), ~((uint64_t{1} << 30) - 1) | 0xC);
  put<uint64_t>(space, 0x20, ~uint64_t{0});
  EXPECT_EQ(get<uint64_t>(space, 0x20), ~((uint64_t{32} << 30) - 1) | 0xC);
  put<uint64_t>(space, 0x18, ~uint64_t{0});
  EXPECT_EQ(get<uint64_t>(space, 0x18), 0u);
}

TEST(PciConfigSpace, KeepsWhatMayBeWrittenAndNothingElse) {
  PciConfigSpace space(layout_of(NEURON_PCI_DEVICE_TRN1));
  for (unsigned i = 0; i < PciConfigSpace::kBytes; ++i) put<uint8_t>(space, i, 0xFF);
  EXPECT_EQ(get<uint32_t>(space, 0), 0x71641D0Fu);
  EXPECT_EQ(get<uint16_t>(space, 4), 0x0546u);
  EXPECT_TRUE(space.bus_master());
  EXPECT_EQ(get<uint8_t>(space, 8), 1u);
  EXPECT_EQ(get<uint8_t>(space, 0x3C), 0xFFu);
  EXPECT_EQ(get<uint32_t>(space, 0xFFC), 0u);
  space.reset();
  EXPECT_FALSE(space.bus_master());
  EXPECT_EQ(get<uint8_t>(space, 0x3C), 0u);
}

TEST(PciConfigSpace, TellsOfAFunctionLevelResetAndReadsItBackAsZero) {
  PciConfigSpace space(layout_of(NEURON_PCI_DEVICE_TRN1));
  EXPECT_FALSE(put<uint16_t>(space, 0x48, 0x2810));
  EXPECT_TRUE(put<uint16_t>(space, 0x48, 0xA810));
  EXPECT_EQ(get<uint16_t>(space, 0x48), 0x2810u);
}

TEST(PciConfigSpace, ReadsOnesOutside) {
  PciConfigSpace space(layout_of(NEURON_PCI_DEVICE_TRN1));
  uint32_t value = 0;
  EXPECT_FALSE(space.read(4094, std::as_writable_bytes(std::span(&value, 1))));
  EXPECT_EQ(value, 0xFFFFFFFFu);
  bool reset = false;
  EXPECT_FALSE(space.write(UINT64_MAX, std::as_bytes(std::span(&value, 1)), reset));
}

}  // namespace
}  // namespace neuron::transport
