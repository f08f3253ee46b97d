// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/ultra_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/attributes.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"
#include "hw/fault.h"

namespace neuron::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr chip::Access kEngine{chip::Origin::kEngine, 0, 0, 1000};

std::unique_ptr<UltraServer> made(const char* profile, int& error,
                                  const MemoryLimits& limits = {}) {
  return UltraServer::create(profile, limits, core::create_chip, error);
}

std::unique_ptr<UltraServer> made(const char* profile) {
  int error = 0;
  auto server = made(profile, error);
  EXPECT_NE(server, nullptr) << last_error();
  return server;
}

chip::Bus& open(UltraServer& server, unsigned node, unsigned device) {
  Session* session = nullptr;
  EXPECT_EQ(server.node(node).open(device, O_RDWR, 4711, &session), 0) << last_error();
  return server.node(node).device_if_probed(device)->chip().bus();
}

uint64_t peer(unsigned instances_further, uint64_t routing_id) {
  return NEURON_V3_PEER(routing_id + instances_further * NEURON_V3_PEER_INSTANCE);
}

TEST(UltraServer, HasNodesWhoseChipsReachMemoryOfEachOther) {
  for (const char* profile : {"trn2-ultraserver", "trn3-ultraserver-gen1"}) {
    SCOPED_TRACE(profile);
    const auto server = made(profile);
    ASSERT_EQ(server->nodes(), 4u);
    const uint32_t id = server->node(0).profile().places[5].routing_id;
    const chip::Bus& first = open(*server, 0, 5);
    const chip::Bus& last = open(*server, 3, 5);
    constexpr uint64_t kPlace = 0x4000'0000;
    ASSERT_TRUE(first.write32(peer(3, id) + kPlace, 0x12345678, kEngine));
    uint32_t value = 0;
    ASSERT_TRUE(last.read32(kPlace, value, kEngine));
    EXPECT_EQ(value, 0x12345678u);
    ASSERT_TRUE(last.write32(peer(1, id) + kPlace, 77, kEngine)) << "node 0 is next to node 3";
    ASSERT_TRUE(first.read32(kPlace, value, kEngine));
    EXPECT_EQ(value, 77u);
    // A chip that nobody has opened has no power, as within an instance.
    uint32_t why = 0;
    EXPECT_FALSE(first.write32(peer(1, id) + kPlace, 1, kEngine));
    EXPECT_EQ(first.refusal(peer(1, id) + kPlace, why), NEURON_FAULT_LINK);
    EXPECT_EQ(why, 64 + id);
  }
}

TEST(UltraServer, HasLinksBetweenNodesThatAreDownForBothAndThatEitherBringsUp) {
  const auto server = made("trn2-ultraserver");
  const uint32_t id = server->node(0).profile().places[5].routing_id;
  const chip::Bus& first = open(*server, 0, 5);
  const chip::Bus& second = open(*server, 1, 5);
  const chip::Bus& third = open(*server, 2, 5);
  const auto reaches = [&](const chip::Bus& bus, unsigned further) {
    return bus.write32(peer(further, id) + 0x4000'0000, 1, kEngine);
  };
  ASSERT_EQ(server->node(0).faults().set_link({{5}, {5, 1}}, false), 0) << last_error();
  EXPECT_FALSE(reaches(first, 1));
  EXPECT_FALSE(reaches(first, 2)) << "its way leads over node 1";
  EXPECT_FALSE(reaches(second, 3)) << "in both directions";
  EXPECT_TRUE(reaches(second, 1));
  EXPECT_TRUE(reaches(third, 2)) << "of equal ways the one upwards: over node 3";
  uint32_t why = 0;
  EXPECT_EQ(first.refusal(peer(1, id) + 0x4000'0000, why), NEURON_FAULT_LINK);
  EXPECT_EQ(why, 64 + id);
  for (unsigned node = 0; node < server->nodes(); ++node) {
    EXPECT_THAT(server->node(node).faults().links_down(), ElementsAre(Link{{5, 0}, {5, 1}}));
  }
  ASSERT_EQ(server->node(2).faults().set_link({{3}, {7}}, false), 0) << last_error();
  EXPECT_THAT(server->node(2).faults().links_down(),
              ElementsAre(Link{{5, 0}, {5, 1}}, Link{{3}, {7}}));
  EXPECT_THAT(server->node(0).faults().links_down(), ElementsAre(Link{{5, 0}, {5, 1}}));
  server->node(1).faults().clear();
  EXPECT_TRUE(reaches(first, 1));
  EXPECT_THAT(server->node(2).faults().links_down(), ElementsAre(Link{{3}, {7}}));
}

TEST(UltraServer, RefusesLinksThatItsNodesDoNotHaveAndNamesThoseOfTheDevice) {
  const auto server = made("trn2-ultraserver");
  FaultBoard& faults = server->node(0).faults();
  EXPECT_EQ(faults.set_link({{5}, {5, 2}}, false), -EINVAL);
  EXPECT_STREQ(
      last_error(),
      "devices 5 and 5 of node 2 have no link; device 5 is linked with 4, 9, 1, 6, 5 of node "
      "1, 5 of node 3");
  EXPECT_EQ(faults.set_link({{5, 1}, {5, 4}}, false), -ENODEV);
  EXPECT_STREQ(last_error(), "there is no node 4; an emulated trn2-ultraserver has nodes 0 to 3");
  EXPECT_EQ(faults.set_link({{5}, {16, 1}}, false), -ENODEV);
  EXPECT_EQ(faults.set_link({{5}, {5, 0}}, false), -EINVAL) << "its own place";
  const auto switched = made("trn3-ultraserver-gen1");
  EXPECT_EQ(switched->node(0).faults().set_link({{5}, {9, 2}}, false), 0) << last_error();
  EXPECT_THAT(switched->node(3).faults().links_down(), ElementsAre(Link{{5, 0}, {9, 2}}));
}

TEST(UltraServer, TakesAPlanWithALinkBetweenItsNodes) {
  const auto server = made("trn2-ultraserver");
  ASSERT_EQ(server->node(3).faults().inject(
                R"({"at":"link","kind":"down","a":5,"a_node":0,"b":5,"b_node":1})"),
            0)
      << last_error();
  EXPECT_THAT(server->node(0).faults().links_down(), ElementsAre(Link{{5, 0}, {5, 1}}));
}

TEST(UltraServer, HasElectedWhenItIsThere) {
  const auto server = made("trn2-ultraserver");
  std::set<std::string> serials;
  std::set<uint64_t> ids;
  for (unsigned node = 0; node < server->nodes(); ++node) {
    Instance& instance = server->node(node);
    EXPECT_EQ(instance.node(), node);
    neuron_ioctl_pod_status_v2 status = {};
    ASSERT_EQ(instance.pod().status(status), 0);
    EXPECT_EQ(status.v1.state, static_cast<__u32>(NEURON_POD_E_STATE_ULTRASERVER));
    EXPECT_EQ(status.v1.node_id, static_cast<int>(node));
    EXPECT_EQ(status.v1.pod_sz, 4u);
    EXPECT_EQ(status.v1.pod_type, NEURON_POD_TYPE_P2P);
    uint64_t id = 0;
    std::memcpy(&id, status.v1.pod_id, sizeof(id));
    ids.insert(id);
    for (unsigned device = 0; device < instance.device_count(); ++device) {
      std::string text;
      ASSERT_EQ(Attributes(instance, device).read("info/serial_number", text), 0);
      serials.insert(text);
      ASSERT_EQ(Attributes(instance, device).read("emulator/joined_nodes", text), 0);
      EXPECT_EQ(text, "4\n");
    }
  }
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(serials.size(), 64u);
}

std::vector<uint32_t> core_map(UltraServer& server, unsigned node) {
  std::array<uint32_t, 1 + 2 * 8> words{};
  neuron_ioctl_get_logical_to_physical_nc_map request = {};
  request.map = reinterpret_cast<neuron_ioctl_nc_map*>(words.data());
  request.max_map_entries = 8;
  Session* session = nullptr;
  EXPECT_EQ(server.node(node).open(0, O_RDWR, 4711, &session), 0) << last_error();
  EXPECT_EQ(session->ioctl(NEURON_IOCTL_GET_LOGICAL_TO_PHYSICAL_NC_MAP, &request), 0);
  std::vector<uint32_t> cores;
  for (uint32_t core = 0; core < 8; ++core) {
    cores.push_back(request.map->mappings[core].device_nc_idx);
    EXPECT_EQ(server.node(node).physical_core(0, core), cores.back());
  }
  return cores;
}

TEST(UltraServer, HasTheMapOfCoresTurnedRoundOnNodes1And3WhereLinksJoinThem) {
  const std::vector<uint32_t> plain = {4, 5, 6, 7, 2, 3, 0, 1};
  const auto linked = made("trn2-ultraserver");
  for (const unsigned node : {0u, 2u}) EXPECT_EQ(core_map(*linked, node), plain) << node;
  for (const unsigned node : {1u, 3u}) {
    EXPECT_EQ(core_map(*linked, node), (std::vector<uint32_t>{0, 1, 2, 3, 6, 7, 4, 5})) << node;
  }
  const auto switched = made("trn3-ultraserver-gen1");
  for (const unsigned node : {0u, 1u}) EXPECT_EQ(core_map(*switched, node), plain) << node;
}

// A mark is of a logical core, and the end of its process resets the physical one behind it.
TEST(UltraServer, ResetsThePhysicalCoreOfAMarkWhereTheMapIsTurned) {
  const auto server = made("trn2-ultraserver");
  Instance& node = server->node(1);
  Session* session = nullptr;
  ASSERT_EQ(node.open(0, O_RDWR, 4711, &session), 0) << last_error();
  neuron_ioctl_crwl_nc_map_ext map = {1, 4, 4, 0, {}};
  ASSERT_EQ(session->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0) << last_error();
  Device& device = *node.device_if_probed(0);
  const auto resets = [&](uint32_t core) { return device.core_state[core].resets; };
  const auto before = std::pair(resets(4), resets(6));
  session->abandon();
  ASSERT_EQ(node.close(session), 0);
  EXPECT_EQ(std::pair(resets(4), resets(6) - 1), before);
}

TEST(UltraServer, TellsThePlaceOfEachNodeInTwosAndFours) {
  const auto server = made("trn2-ultraserver");
  const PodAttributes first = server->node(2).pod().attributes();
  const PodAttributes second = server->node(3).pod().attributes();
  EXPECT_EQ(first.node_of_4, 2);
  EXPECT_EQ(second.node_of_4, 3);
  EXPECT_EQ(first.node_of_2, 0);
  EXPECT_EQ(second.node_of_2, 1);
  EXPECT_EQ(first.server_of_2, second.server_of_2);
  EXPECT_EQ(first.server_of_4, server->node(0).pod().attributes().server_of_4);
  EXPECT_NE(first.server_of_2, first.server_of_4);
  EXPECT_EQ(first.modes, 1u << NEURON_ULTRASERVER_MODE_X4 | 1u << NEURON_ULTRASERVER_MODE_X2V |
                             1u << NEURON_ULTRASERVER_MODE_X1);
}

TEST(UltraServer, HasOneLimitOfMemoryForAllNodes) {
  int error = 0;
  const auto server = made("trn2-ultraserver", error, {.all = 64 << 20});
  ASSERT_NE(server, nullptr) << last_error();
  EXPECT_EQ(&server->node(0).budget(), &server->node(3).budget());
}

TEST(UltraServer, IsRefusedWhereTheProfileHasNoneOrOneThatIsTooLarge) {
  int error = 0;
  EXPECT_EQ(made("trn2.48xlarge", error), nullptr);
  EXPECT_EQ(error, -EINVAL);
  EXPECT_THAT(last_error(), HasSubstr("trn2.48xlarge is no node of an UltraServer"));
  EXPECT_EQ(made("trn3-ultraserver-gen2", error), nullptr);
  EXPECT_THAT(
      last_error(),
      HasSubstr("has 36 nodes of 4 chips; one daemon serves at most 4 nodes, and 64 chips"));
  EXPECT_EQ(made("p5.48xlarge", error), nullptr);
  EXPECT_EQ(error, -ENOENT);
}

}  // namespace
}  // namespace neuron::service
