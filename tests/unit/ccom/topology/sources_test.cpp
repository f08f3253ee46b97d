// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include "ccom/topology/facts.h"
#include "ccom/topology/host.h"
#include "ccom/topology/routes.h"
#include "tests/support/files.h"

namespace neuron::ccom {
namespace {

std::vector<ChipFacts> chips_of_profile(const char* name, uint32_t generation) {
  const auto profile = Topology::profile(name);
  std::vector<ChipFacts> chips;
  for (uint32_t chip = 0; chip < profile->chips; ++chip) {
    chips.push_back({chip, generation, profile->neighbours[chip]});
  }
  return chips;
}

TEST(Facts, AWholeHostHasTheRingsAndRatesOfItsProfile) {
  for (const auto& [name, generation] :
       {std::pair{"trn1.32xlarge", 2u}, {"inf2.48xlarge", 2u}, {"trn2.48xlarge", 3u}}) {
    const auto known = Topology::profile(name);
    const auto profile = profile_of_chips(chips_of_profile(name, generation), known->nics);
    ASSERT_TRUE(profile) << profile.error().sentence;
    EXPECT_EQ(profile->rings, known->rings);
    EXPECT_EQ(profile->neighbours, known->neighbours);
    EXPECT_EQ(profile->link.bytes_per_second, known->link.bytes_per_second);
    EXPECT_EQ(profile->nics, known->nics);
  }
}

TEST(Facts, APartOfAHostKeepsTheLinksThatBothEndsHave) {
  auto chips = chips_of_profile("trn1.32xlarge", 2);
  chips.erase(chips.begin() + 4, chips.end());  // one row of the torus
  const auto profile = profile_of_chips(chips, 0);
  ASSERT_TRUE(profile) << profile.error().sentence;
  EXPECT_EQ(profile->chips, 4u);
  for (const auto& list : profile->neighbours) EXPECT_EQ(list.size(), 2u);
  ASSERT_EQ(profile->rings.size(), 1u);
  EXPECT_EQ(profile->rings[0].size(), 4u);
}

TEST(Facts, ContradictionsAreNamed) {
  EXPECT_FALSE(profile_of_chips({}, 0));
  EXPECT_NE(profile_of_chips({{7, 9, {}}}, 0).error().sentence.find("generation 9"),
            std::string::npos);
  EXPECT_NE(profile_of_chips({{0, 2, {}}, {1, 3, {}}}, 0).error().sentence.find("chip 1"),
            std::string::npos);
  EXPECT_NE(profile_of_chips({{0, 2, {}}, {0, 2, {}}}, 0).error().sentence.find("twice"),
            std::string::npos);
  EXPECT_FALSE(profile_of_chips({{0, 2, {1}}, {1, 2, {}}}, 0));
}

TEST(Host, ListsNumaNodesAndEfaDevices) {
  const test::Folder root;
  const auto write = [&](const std::string& path, const std::string& text) {
    root.write(path, text + "\n");
  };
  write("devices/system/node/node1/cpulist", "2-3,6");
  write("devices/system/node/node0/cpulist", "0-1,4-5");
  write("devices/system/node/possible", "0-1");
  write("class/infiniband/rdmap1/device/vendor", "0x1d0f");
  write("class/infiniband/rdmap1/device/numa_node", "1");
  write("class/infiniband/mlx5_0/device/vendor", "0x15b3");
  const HostFacts facts = host_facts(root.path());
  ASSERT_EQ(facts.numa.size(), 2u);
  EXPECT_EQ(facts.numa[1].processors, (std::vector<uint32_t>{2, 3, 6}));
  EXPECT_EQ(facts.numa_of(6), 1u);
  EXPECT_EQ(facts.numa_of(5), 0u);
  ASSERT_EQ(facts.efa.size(), 1u);
  EXPECT_EQ(facts.efa[0].name, "rdmap1");
  EXPECT_EQ(facts.efa[0].numa, 1);
}

TEST(Host, AListOfProcessorsThatCannotBeReadEndsThere) {
  EXPECT_EQ(parse_processors("0-2,8"), (std::vector<uint32_t>{0, 1, 2, 8}));
  EXPECT_TRUE(parse_processors("").empty());
  EXPECT_TRUE(parse_processors("x").empty());
  EXPECT_EQ(parse_processors("3,"), (std::vector<uint32_t>{3}));
  EXPECT_TRUE(parse_processors("5-").empty());
  EXPECT_TRUE(parse_processors("9-1").empty());
  EXPECT_TRUE(parse_processors("0-99999999").empty());
}

std::vector<std::string> names(const Routes& routes, const Place& from, const Place& to) {
  std::vector<std::string> result;
  const auto hops = routes.path(from, to);
  EXPECT_TRUE(hops) << hops.error().sentence;
  if (hops) {
    for (const Hop& hop : *hops) result.push_back(routes.name(hop.resource));
  }
  return result;
}

TEST(Routes, OnTheTorusGoAlongTheRowThenAlongTheColumnTheShortWay) {
  const Routes routes(Topology(*Topology::profile("trn2.48xlarge"), 2), {});
  EXPECT_EQ(names(routes, {0, 0, 0, 0}, {0, 7, 0, 0}),
            (std::vector<std::string>{"node 0 chip 0 -> 3", "node 0 chip 3 -> 7"}));
  EXPECT_EQ(names(routes, {1, 5, 0, 0}, {1, 5, 2, 0}),
            (std::vector<std::string>{"node 1 chip 5 core 0"}));
  EXPECT_EQ(names(routes, {0, 3, 0, 0}, {1, 12, 0, 0}),
            (std::vector<std::string>{"node 0 NIC 3 out", "node 1 NIC 12 in"}));
}

TEST(Routes, OfAnUltraServerGoThroughTheTorusThenAroundTheShortWay) {
  const Routes routes(Topology(*Topology::profile("trn2-ultraserver"), 8), {});
  EXPECT_EQ(names(routes, {0, 0, 0, 0}, {3, 1, 0, 0}),
            (std::vector<std::string>{"node 0 chip 0 -> 1", "node 0 chip 1 pod down"}));
  EXPECT_EQ(names(routes, {1, 2, 0, 0}, {3, 2, 0, 0}),
            (std::vector<std::string>{"node 1 chip 2 pod up", "node 2 chip 2 pod up"}));
  EXPECT_EQ(names(routes, {3, 2, 0, 0}, {4, 2, 0, 0}),
            (std::vector<std::string>{"node 3 NIC 2 out", "node 4 NIC 2 in"}));
}

TEST(Routes, ThroughASwitchTakeOnePortAtEachEndAndItsRate) {
  const Topology topology(*Topology::profile("trn3-ultraserver-gen2"), 36);
  const Routes routes(topology, {});
  EXPECT_EQ(names(routes, {0, 1, 0, 0}, {5, 2, 0, 0}),
            (std::vector<std::string>{"node 0 chip 1 switch out", "node 5 chip 2 switch in"}));
  const auto rate = [&](uint32_t node) {
    return (*routes.path({0, 0, 0, 0}, {node, 1, 0, 0}))[0].bytes_per_second;
  };
  EXPECT_EQ(rate(0), topology.node().link.bytes_per_second);
  EXPECT_EQ(rate(17), topology.node().pod_link.bytes_per_second);
  EXPECT_EQ(rate(18), topology.node().rack_link.bytes_per_second);
}

}  // namespace
}  // namespace neuron::ccom
