// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/chip/fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "hw/isa.h"
#include "hw/udma.h"

namespace neuron::chip {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NoHost final : public HostMemory {
 public:
  std::byte* translate(uint64_t, size_t) override { return host.data(); }
  std::array<std::byte, 4096> host{};
};

// The 4 x 4 torus of a trn1.32xlarge: ports up, left, down, right.
std::vector<FabricNode> torus() {
  std::vector<FabricNode> nodes;
  for (unsigned n = 0; n < 16; ++n) {
    const unsigned row = n / 4 * 4;
    nodes.push_back({n, {(n + 12) % 16, row + (n + 3) % 4, (n + 4) % 16, row + (n + 1) % 4}});
  }
  return nodes;
}

std::vector<FabricNode> chain(unsigned length) {
  std::vector<FabricNode> nodes;
  for (unsigned n = 0; n < length; ++n) {
    nodes.push_back({n + 3, {}});
    if (n != 0) nodes[n].neighbours.push_back(n - 1);
    if (n + 1 != length) nodes[n].neighbours.push_back(n + 1);
  }
  return nodes;
}

unsigned port(unsigned node, unsigned number) { return node * Fabric::kPorts + number; }

TEST(FabricWays, OfATorusGoAlongTheRowFirstAndTheShorterWayRound) {
  const Fabric fabric(torus(), {});
  EXPECT_THAT(fabric.way(0, 1), ElementsAre(port(0, 3)));
  EXPECT_THAT(fabric.way(0, 3), ElementsAre(port(0, 1)));
  EXPECT_THAT(fabric.way(0, 15), ElementsAre(port(0, 1), port(3, 0)));
  EXPECT_THAT(fabric.way(5, 10), ElementsAre(port(5, 3), port(6, 2)));
  EXPECT_THAT(fabric.way(9, 9), IsEmpty());
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < 16; ++b) EXPECT_LE(fabric.way(a, b).size(), 4u);
  }
}

TEST(FabricWays, OfAChainGoThroughAllBetween) {
  const Fabric fabric(chain(6), {});
  EXPECT_EQ(fabric.way(0, 5).size(), 5u);
  EXPECT_EQ(fabric.way(5, 0).size(), 5u);
}

TEST(FabricTransfer, FollowsTheBytesThroughEveryLink) {
  const Fabric fabric(torus(), {1'000'000, 50'000'000'000});
  LinkTimes times{};
  const uint64_t far = NEURON_V2_PEER(15ull);
  EXPECT_EQ(fabric.latency(0, far), 2'000'000u);
  // 100,000 bytes take 2 us. A write is posted: what it takes of the sender is the time of a link.
  EXPECT_EQ(fabric.transfer(0, far, 100'000, true, 500, times), 2'000'500u);
  // The next one waits for the link, not for the way.
  EXPECT_EQ(fabric.transfer(0, far, 100'000, true, 500, times), 4'000'500u);
  // Another direction is free. A read asks first and gets its bytes by the way back.
  EXPECT_EQ(fabric.transfer(0, far, 100'000, false, 0, times), 6'000'000u);
}

TEST(FabricTransfer, QueuesWhereTwoWaysShareALink) {
  const Fabric fabric(chain(4), {1'000'000, 50'000'000'000});
  LinkTimes times{};
  EXPECT_EQ(fabric.transfer(1, NEURON_V2_PEER(5ull), 100'000, true, 0, times), 2'000'000u);
  // From node 0 to 3: the link from 1 to 2 is taken until 2 us; the bytes reach it at 1 us.
  EXPECT_EQ(fabric.transfer(0, NEURON_V2_PEER(6ull), 100'000, true, 0, times), 3'000'000u);
}

TEST(FabricTransfer, TakesTheGapInFrontOfOneThatBeginsLater) {
  const Fabric fabric(torus(), {1'000'000, 50'000'000'000});
  LinkTimes times{};
  const uint64_t next = NEURON_V2_PEER(1ull);
  EXPECT_EQ(fabric.transfer(0, next, 100'000, true, 5'000'000, times), 7'000'000u);
  EXPECT_EQ(fabric.transfer(0, next, 100'000, true, 1'000'000, times), 3'000'000u);
  EXPECT_EQ(fabric.transfer(0, next, 150'000, true, 2'500'000, times), 10'000'000u)
      << "two microseconds are left there, and it needs three";
}

std::vector<FabricNode> behind_a_switch(unsigned chips) {
  std::vector<FabricNode> nodes;
  for (unsigned n = 0; n < chips; ++n) nodes.push_back({n, {}});
  return nodes;
}

TEST(FabricWays, OfASwitchAreOneHopBetweenAnyTwoChips) {
  const Fabric fabric(behind_a_switch(16), {2'000'000, 50'000'000'000}, FabricKind::kSwitch);
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < 16; ++b) {
      const auto expected = a == b ? std::vector<unsigned>{} : std::vector{port(a, 0), port(b, 1)};
      EXPECT_EQ(fabric.way(a, b), expected);
      EXPECT_EQ(fabric.latency(a, NEURON_V3_PEER(uint64_t{b})), a == b ? 0u : 2'000'000u);
    }
  }
  // An address by link is for neighbours, which nobody has here.
  EXPECT_EQ(fabric.refusal(0, NEURON_V3_NEIGHBOUR(0ull)).code, NEURON_FAULT_LINK);
}

TEST(FabricWays, OfASwitchCloseForTheTwoChipsThatAreNamed) {
  Fabric fabric(behind_a_switch(3), {2'000'000, 50'000'000'000}, FabricKind::kSwitch);
  const auto open = [&](unsigned from, uint64_t to) {
    return fabric.latency(from, NEURON_V3_PEER(to)) != 0;
  };
  fabric.set_link(2, 1, false);
  EXPECT_FALSE(open(1, 2));
  EXPECT_FALSE(open(2, 1));
  EXPECT_TRUE(open(0, 1) && open(0, 2) && open(1, 0) && open(2, 0));
  fabric.set_link(1, 2, true);
  EXPECT_TRUE(open(1, 2) && open(2, 1));
}

TEST(FabricTransfer, ThroughASwitchWaitsForThePortsOfBothChipsOnly) {
  const Fabric fabric(behind_a_switch(4), {1'000'000, 50'000'000'000}, FabricKind::kSwitch);
  LinkTimes times{};
  const auto to = [](uint64_t chip) { return NEURON_V3_PEER(chip); };
  EXPECT_EQ(fabric.transfer(0, to(1), 100'000, true, 0, times), 2'000'000u);
  EXPECT_EQ(fabric.transfer(2, to(3), 100'000, true, 0, times), 2'000'000u) << "other ports";
  EXPECT_EQ(fabric.transfer(0, to(3), 100'000, true, 0, times), 4'000'000u) << "the sender's port";
  EXPECT_EQ(fabric.transfer(2, to(1), 100'000, true, 0, times), 4'000'000u) << "the receiver's";
  // A read asks, and its bytes come by the other chip's port: both ways cost the latency.
  LinkTimes fresh{};
  EXPECT_EQ(fabric.transfer(0, to(1), 100'000, false, 0, fresh), 4'000'000u);
}

constexpr LinkTiming kLink{1'000'000, 50'000'000'000}, kBetween{3'000'000, 25'000'000'000};
constexpr unsigned kUp = 4, kDown = 5;

// An address on the chip of that routing id, so many instances further.
uint64_t further(unsigned instances, uint64_t id) {
  return NEURON_V3_PEER(id + instances * NEURON_V3_PEER_INSTANCE);
}

TEST(FabricOfInstances, LinksEqualPlacesInARingBehindTheWayWithinTheInstance) {
  const Fabric fabric(torus(), kLink, FabricKind::kLinks, {4, kBetween});
  EXPECT_EQ(fabric.nodes(), 64u);
  EXPECT_THAT(fabric.way(5, 16 + 5), ElementsAre(port(5, kUp)));
  EXPECT_THAT(fabric.way(5, 48 + 5), ElementsAre(port(5, kDown)));
  EXPECT_THAT(fabric.way(5, 32 + 5), ElementsAre(port(5, kUp), port(16 + 5, kUp)));
  EXPECT_THAT(fabric.way(48 + 5, 5), ElementsAre(port(48 + 5, kUp)));
  EXPECT_THAT(fabric.way(16, 1), ElementsAre(port(16, 3), port(16 + 1, kDown)));
  EXPECT_THAT(fabric.way(16 + 2, 16 + 3), ElementsAre(port(16 + 2, 3))) << "within an instance";
  EXPECT_EQ(fabric.latency(16, further(3, 1)), 4'000'000u) << "one link of each kind";
  EXPECT_EQ(fabric.latency(16, further(0, 1)), 1'000'000u);
}

TEST(FabricOfInstances, CountsThemFromThatOfTheSender) {
  const Fabric fabric(torus(), kLink, FabricKind::kLinks, {2, kBetween});
  EXPECT_EQ(fabric.latency(0, further(1, 0)), 3'000'000u);
  EXPECT_EQ(fabric.latency(16, further(3, 0)), 3'000'000u) << "0 is 3 further than 1, round 4";
  for (const unsigned absent : {2u, 3u}) {
    const Fabric::Refusal why = fabric.refusal(0, further(absent, 5));
    EXPECT_EQ(why.code, NEURON_FAULT_LINK);
    EXPECT_EQ(why.id, absent * 64 + 5);
  }
  EXPECT_EQ(fabric.refusal(16, further(1, 5)).code, NEURON_FAULT_LINK);
}

TEST(FabricOfInstances, SendsBytesAtTheRateOfTheSlowestLinkOfTheWay) {
  const Fabric fabric(torus(), kLink, FabricKind::kLinks, {4, kBetween});
  LinkTimes times{};
  // 100,000 bytes take 2 us within an instance and 4 between two.
  EXPECT_EQ(fabric.transfer(16, further(0, 1), 100'000, true, 0, times), 2'000'000u);
  EXPECT_EQ(fabric.transfer(0, further(1, 0), 100'000, true, 0, times), 4'000'000u);
  EXPECT_EQ(fabric.transfer(0, further(1, 0), 100'000, true, 0, times), 8'000'000u)
      << "behind the first";
  EXPECT_EQ(fabric.transfer(0, further(3, 0), 100'000, true, 0, times), 4'000'000u)
      << "the other way round the ring is free";
  // The bytes of a read come within the other instance first, then to this one.
  LinkTimes fresh{};
  EXPECT_EQ(fabric.transfer(0, further(1, 1), 100'000, false, 0, fresh), 12'000'000u);
}

TEST(FabricOfInstances, ListsTheLinksThatAreDown) {
  Fabric fabric(torus(), kLink, FabricKind::kLinks, {4, kBetween});
  EXPECT_TRUE(fabric.has_link(16, 0));
  EXPECT_TRUE(fabric.has_link(0, 48)) << "the ring closes";
  EXPECT_FALSE(fabric.has_link(0, 32));
  EXPECT_FALSE(fabric.has_link(0, 17));
  EXPECT_FALSE(fabric.has_link(5, 5));
  EXPECT_FALSE(fabric.has_link(0, 64));
  fabric.set_link(48, 0, false);
  fabric.set_link(17, 18, false);
  EXPECT_THAT(fabric.links_down(), ElementsAre(std::pair(0u, 48u), std::pair(17u, 18u)));
  fabric.set_link(0, 48, true);
  EXPECT_THAT(fabric.links_down(), ElementsAre(std::pair(17u, 18u)));
  Fabric switched(behind_a_switch(16), kLink, FabricKind::kSwitch, {4, kBetween});
  EXPECT_TRUE(switched.has_link(0, 63));
  switched.set_link(63, 0, false);
  EXPECT_THAT(switched.links_down(), ElementsAre(std::pair(0u, 63u)));
}

TEST(FabricOfInstances, JoinsThemByTheSwitchToo) {
  Fabric fabric(behind_a_switch(16), kLink, FabricKind::kSwitch, {4, kBetween});
  EXPECT_THAT(fabric.way(0, 63), ElementsAre(port(0, 0), port(63, 1)));
  EXPECT_EQ(fabric.latency(0, further(3, 15)), 3'000'000u);
  EXPECT_EQ(fabric.latency(0, further(0, 15)), 1'000'000u);
  LinkTimes times{};
  EXPECT_EQ(fabric.transfer(0, further(3, 15), 100'000, true, 0, times), 4'000'000u);
  EXPECT_EQ(fabric.transfer(0, further(0, 1), 100'000, true, 0, times), 6'000'000u)
      << "one port for both";
  fabric.set_link(0, 63, false);
  EXPECT_EQ(fabric.latency(0, further(3, 15)), 0u);
}

class Chips : public ::testing::TestWithParam<uint16_t> {
 protected:
  static constexpr unsigned kChips = 3;
  void SetUp() override {
    for (unsigned n = 0; n < kChips; ++n) {
      ChipConfig config;
      config.pci_device = GetParam();
      config.index = n;
      config.routing_id = n + 3;
      config.hbm_bytes_each = 16u << 20;
      config.workers = 1;
      config.fabric = &fabric_;
      std::string error;
      chips_[n] = core::create_chip(config, host_, error);
      ASSERT_NE(chips_[n], nullptr) << error;
    }
  }
  bool v3() const { return GetParam() == NEURON_PCI_DEVICE_TRN2; }
  uint64_t peer(unsigned id) const { return v3() ? NEURON_V3_PEER(id) : NEURON_V2_PEER(id); }
  uint64_t core(unsigned chip) { return chips_[chip]->layout().core_address(0); }
  uint64_t topsp(unsigned i) {
    const ChipLayout& layout = chips_[0]->layout();
    return layout.device_of(layout.topsp_window(i));
  }
  bool write(unsigned from, uint64_t address, uint32_t value) {
    return chips_[from]->bus().write32(address, value,
                                       {Origin::kEngine, 0, NEURON_ENGINE_SP, 1000});
  }
  neuron_fault why(unsigned from, uint64_t address, uint32_t& id) {
    return chips_[from]->bus().refusal(address, id);
  }

  NoHost host_;
  Fabric fabric_{chain(kChips), {}};
  std::array<std::unique_ptr<Chip>, kChips> chips_;
};
INSTANTIATE_TEST_SUITE_P(Generations, Chips,
                         ::testing::Values(NEURON_PCI_DEVICE_TRN1, NEURON_PCI_DEVICE_TRN2));

TEST_P(Chips, ReachMemoryOfEachOtherByRoutingId) {
  ASSERT_TRUE(write(0, peer(5) + 0x2000, 0x12345678));
  uint32_t value = 0;
  std::memcpy(&value, chips_[2]->hbm().direct(0x2000, 4), 4);
  EXPECT_EQ(value, 0x12345678u);
  value = 0;
  ASSERT_TRUE(chips_[1]->bus().read32(peer(5) + 0x2000, value, {}));
  EXPECT_EQ(value, 0x12345678u);
  // Its own id is itself.
  value = 0;
  ASSERT_TRUE(chips_[2]->bus().read32(peer(5) + 0x2000, value, {}));
  EXPECT_EQ(value, 0x12345678u);
}

TEST_P(Chips, ReachTheStateBufferAndTheSemaphoresOfCoresAndCcCores) {
  ASSERT_TRUE(write(0, peer(4) + core(1) + 0x40, 7));
  uint32_t value = 0;
  ASSERT_TRUE(chips_[1]->bus().read32(core(1) + 0x40, value, {}));
  EXPECT_EQ(value, 7u);
  const uint64_t inc = NEURON_SEM_BLOCK_INC + 4 * 250;
  const uint64_t read = NEURON_SEM_BLOCK_READ + 4 * 250;
  for (int n = 0; n < 3; ++n) {
    ASSERT_TRUE(write(0, peer(4) + core(1) + NEURON_CORE_SEMAPHORES + inc, 2));
    ASSERT_TRUE(write(2, peer(4) + topsp(1) + inc, 1));
  }
  ASSERT_TRUE(chips_[1]->bus().read32(core(1) + NEURON_CORE_SEMAPHORES + read, value, {}));
  EXPECT_EQ(value, 6u);
  ASSERT_TRUE(chips_[2]->bus().read32(peer(4) + topsp(1) + read, value, {}));
  EXPECT_EQ(value, 3u);
}

TEST_P(Chips, RefuseHostMemoryAndOtherRegistersOfEachOther) {
  const ChipLayout& layout = chips_[0]->layout();
  uint32_t id = 0;
  // On generation 2 host memory has no routed address: its bit is one of the id.
  const uint64_t host = v3() ? layout.host_base : layout.device_of(layout.misc_ram);
  for (const uint64_t local : std::initializer_list<uint64_t>{
           host, core(1) + NEURON_CORE_CONTROL, core(1) + NEURON_CORE_ENGINE(4),
           topsp(0) + NEURON_CC_ENGINE, layout.device_of(layout.misc_ram),
           layout.device_of(layout.udma(0)) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 15) + 0x38}) {
    EXPECT_FALSE(write(0, peer(4) + local, 1)) << std::hex << local;
    EXPECT_EQ(why(0, peer(4) + local, id), NEURON_FAULT_BUS) << std::hex << local;
  }
}

TEST_P(Chips, NameTheIdThatNoLinkLeadsTo) {
  uint32_t id = 0;
  EXPECT_FALSE(write(0, peer(9) + 0x2000, 1));
  EXPECT_EQ(why(0, peer(9) + 0x2000, id), NEURON_FAULT_LINK);
  EXPECT_EQ(id, 9u);

  fabric_.set_link(2, 1, false);
  EXPECT_TRUE(write(0, peer(4) + 0x2000, 1));
  EXPECT_FALSE(write(0, peer(5) + 0x2000, 1));
  EXPECT_EQ(why(0, peer(5) + 0x2000, id), NEURON_FAULT_LINK);
  EXPECT_EQ(id, 5u);
  EXPECT_FALSE(write(2, peer(4) + 0x2000, 1));
  fabric_.set_link(1, 2, true);
  EXPECT_TRUE(write(0, peer(5) + 0x2000, 1));

  chips_[1]->set_power(false);
  EXPECT_FALSE(write(0, peer(4) + 0x2000, 1));
  EXPECT_EQ(why(0, peer(4) + 0x2000, id), NEURON_FAULT_LINK);
  chips_[2].reset();
  EXPECT_FALSE(write(0, peer(5) + 0x2000, 1));
}

TEST_P(Chips, ReachNeighboursByLinkOnGeneration3) {
  uint32_t id = 0;
  if (!v3()) {
    EXPECT_FALSE(write(1, NEURON_V3_NEIGHBOUR(0) + 0x2000, 1));
    return;
  }
  ASSERT_TRUE(write(1, NEURON_V3_NEIGHBOUR(1) + 0x2000, 11));
  uint32_t value = 0;
  ASSERT_TRUE(chips_[2]->bus().read32(0x2000, value, {}));
  EXPECT_EQ(value, 11u);
  EXPECT_FALSE(write(1, NEURON_V3_NEIGHBOUR(2) + 0x2000, 1));
  EXPECT_EQ(why(1, NEURON_V3_NEIGHBOUR(2) + 0x2000, id), NEURON_FAULT_LINK);
  EXPECT_EQ(id, 256u + 2);
}

TEST_P(Chips, TakeNoRingAndNoProgramFromEachOther) {
  EXPECT_EQ(chips_[0]->bus().direct(peer(4) + 0x2000, 64), nullptr);
  EXPECT_NE(chips_[0]->bus().memory(peer(4) + 0x2000, 64), nullptr);
}

}  // namespace
}  // namespace neuron::chip
