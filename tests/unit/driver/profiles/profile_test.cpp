// SPDX-License-Identifier: Apache-2.0
#include "driver/profiles/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <set>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "driver/profiles/nearest_adapter.h"
#include "driver/profiles/profile_texts.h"
#include "driver/profiles/topology.h"
#include "hw/address_map.h"
#include "tests/support/files.h"

namespace neuron::profiles {
namespace {

using ::testing::HasSubstr;

std::string text_of(const char* name) {
  for (size_t i = 0; i < kProfileTextCount; ++i) {
    if (kProfileTexts[i].name == name) return std::string(kProfileTexts[i].text);
  }
  return "";
}

// A profile with one part of its text replaced.
std::string changed(const char* name, const std::string& from, const std::string& to) {
  std::string text = text_of(name);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::string refusal(const std::string& text) {
  std::string error;
  EXPECT_EQ(parse_profile(text, "mine.json", error), nullptr);
  return error;
}

// How many chips each adapter serves.
std::vector<size_t> shares(const Profile& profile) {
  std::vector<size_t> served(profile.efa, 0);
  for (unsigned chip = 0; chip < profile.chips; ++chip) ++served.at(profile.places[chip].adapter);
  return served;
}

TEST(Profiles, EveryFileOfTheLibraryIsRightAndNamedLikeItsContents) {
  unsigned emulated = 0;
  for (size_t i = 0; i < kProfileTextCount; ++i) {
    std::string error;
    NodeProfile topology;
    if (kProfileTexts[i].text.find("\"topology\"") == std::string_view::npos) continue;
    EXPECT_TRUE(load_topology(kProfileTexts[i].name, topology, error)) << error;
    EXPECT_EQ(topology.name, kProfileTexts[i].name);
    if (kProfileTexts[i].text.find("\"devices\"") == std::string_view::npos) continue;
    const Profile* profile =
        parse_profile(kProfileTexts[i].text, std::string(kProfileTexts[i].name), error);
    ASSERT_NE(profile, nullptr) << error;
    EXPECT_EQ(profile->name, kProfileTexts[i].name);
    EXPECT_THAT(profile_names(), HasSubstr(profile->name));
    EXPECT_EQ(find_profile(profile->name), profile) << "the same text is the same profile";
    // Said by one of the two sections, or by both alike.
    EXPECT_EQ(topology.chips, profile->chips);
    if (profile->efa != 0) {
      EXPECT_EQ(topology.nics, profile->efa) << profile->name;
      EXPECT_EQ(shares(*profile), std::vector<size_t>(profile->efa, profile->chips / profile->efa))
          << profile->name << ": every adapter serves as many chips";
    }
    for (unsigned chip = 0; chip < profile->chips; ++chip) {
      EXPECT_EQ(
          std::set<uint32_t>(topology.neighbours[chip].begin(), topology.neighbours[chip].end()),
          std::set<uint32_t>(
              profile->places[chip].neighbours,
              profile->places[chip].neighbours + profile->places[chip].neighbour_count))
          << profile->name << " chip " << chip;
    }
    ++emulated;
  }
  EXPECT_GE(emulated, 9u);
}

TEST(Profiles, PciDevicesAreThoseOfTheHardwareHeaders) {
  EXPECT_EQ(find_profile("trn1.2xlarge")->pci_device, NEURON_PCI_DEVICE_TRN1);
  EXPECT_EQ(find_profile("inf2.xlarge")->pci_device, NEURON_PCI_DEVICE_INF2);
  EXPECT_EQ(find_profile("trn2.3xlarge")->pci_device, NEURON_PCI_DEVICE_TRN2);
  EXPECT_EQ(find_profile("trn3pd98.3xlarge")->pci_device, NEURON_PCI_DEVICE_TRN3);
}

TEST(Profiles, ChipsOfTrn3MeetInASwitchAndHaveNoNeighbours) {
  for (const auto& [name, chips] : {std::pair{"trn3s.48xlarge", 16u},
                                    {"trn3-ultraserver-gen1", 16u},
                                    {"trn3-ultraserver-gen2", 4u}}) {
    const Profile* profile = find_profile(name);
    ASSERT_NE(profile, nullptr) << name;
    EXPECT_TRUE(profile->switched) << name;
    EXPECT_EQ(profile->chips, chips) << name;
    EXPECT_EQ(profile->architecture, 4u) << name;
    EXPECT_EQ(profile->hbm_stacks * profile->hbm_stack_bytes, uint64_t{144} << 30) << name;
    for (unsigned i = 0; i < profile->chips; ++i) {
      EXPECT_EQ(profile->places[i].neighbour_count, 0u) << name;
      EXPECT_EQ(profile->places[i].routing_id, i) << name;
    }
  }
  EXPECT_FALSE(find_profile("trn2.48xlarge")->switched);
}

TEST(Profiles, ASwitchAndNeighboursExcludeEachOther) {
  std::string text = text_of("trn2.48xlarge");
  const size_t at = text.find("\"adapters\"");
  ASSERT_NE(at, std::string::npos);
  std::string error;
  EXPECT_NE(
      parse_profile(std::string(text).insert(at, "\"fabric\": \"links\", "), "mine.json", error),
      nullptr)
      << error;
  EXPECT_THAT(refusal(std::string(text).insert(at, "\"fabric\": \"switch\", ")),
              HasSubstr("chips of a switch have no neighbours"));
  EXPECT_THAT(refusal(std::string(text).insert(at, "\"fabric\": \"ring\", ")),
              HasSubstr("field \"fabric\" is \"ring\", expected \"links\" or \"switch\""));
}

TEST(Profiles, ATypeWithoutDevicesIsATopologyOnly) {
  EXPECT_EQ(find_profile("host"), nullptr);
  EXPECT_THAT(profile_names(), ::testing::Not(HasSubstr("host")));
  EXPECT_THAT(topology_names(), ::testing::Contains("host"));
  EXPECT_THAT(refusal(text_of("host")), HasSubstr("field \"devices\" is missing"));
}

TEST(Profiles, ANodeOfTheTrn2UltraServerHasTheDevicesOfTrn2AndThreeOthersBesideIt) {
  const Profile* node = find_profile("trn2-ultraserver");
  const Profile* alone = find_profile("trn2.48xlarge");
  ASSERT_NE(node, nullptr);
  ASSERT_NE(alone, nullptr);
  ASSERT_EQ(node->chips, alone->chips);
  EXPECT_EQ(std::memcmp(node->places, alone->places, sizeof(ChipPlace) * node->chips), 0);
  EXPECT_EQ(node->efa, alone->efa);
  std::string error;
  NodeProfile topology;
  ASSERT_TRUE(load_topology("trn2-ultraserver", topology, error)) << error;
  EXPECT_EQ(topology.pod, PodType::kPeerToPeer);
  EXPECT_EQ(topology.pod_nodes, 4u);
}

TEST(Profiles, ThoseOfInferentia1AreAChainOfChipsWithoutATopologyForCollectives) {
  const Profile* profile = find_profile("inf1.6xlarge");
  ASSERT_NE(profile, nullptr);
  EXPECT_EQ(profile->pci_device, NEURON_PCI_DEVICE_INF1);
  EXPECT_EQ(profile->architecture, 1u);
  EXPECT_EQ(profile->cores, 4u);
  EXPECT_EQ(profile->chips, 4u);
  EXPECT_EQ(profile->hbm_stacks * profile->hbm_stack_bytes, uint64_t{8} << 30);
  EXPECT_EQ(profile->places[0].neighbour_count, 1u);
  EXPECT_EQ(profile->places[1].neighbour_count, 2u);
  EXPECT_EQ(profile->places[1].neighbours[0], 2u);
  EXPECT_NE(find_profile("inf1.xlarge"), nullptr);
  EXPECT_THAT(topology_names(), ::testing::Not(::testing::Contains("inf1.6xlarge")));
  std::string error;
  NodeProfile topology;
  EXPECT_FALSE(load_topology("inf1.6xlarge", topology, error));
  EXPECT_THAT(error, HasSubstr("field \"topology\" is missing"));
}

TEST(Profiles, AFileOfOneSectionNeedsNoNameAroundIt) {
  std::string error;
  const Profile* profile = parse_profile(
      R"({"name": "mine", "pci_device": "0x7164", "revision": 1, "generation": 2, "cores": 2,
          "hbm": {"stacks": 2, "gib": 1}, "adapters": [], "chips": [
            {"routing_id": 0, "address": "0000:00:1e.0", "numa_node": -1, "neighbours": []}]})",
      "mine.json", error);
  ASSERT_NE(profile, nullptr) << error;
  EXPECT_STREQ(profile->name, "mine");
}

TEST(Profiles, Trn2IsATorusOfSixteenChipsWithEightCoresAndFourStacks) {
  const Profile* profile = find_profile("trn2.48xlarge");
  ASSERT_NE(profile, nullptr);
  EXPECT_EQ(profile->pci_device, 0x7364);
  EXPECT_EQ(profile->architecture, 3u);
  EXPECT_EQ(profile->chips, 16u);
  EXPECT_EQ(profile->cores, 8u);
  EXPECT_EQ(profile->hbm_stacks, 4u);
  EXPECT_EQ(profile->hbm_stack_bytes, uint64_t{24} << 30);
  EXPECT_EQ(profile->efa, 16u);
  std::set<uint32_t> routing_ids;
  for (unsigned i = 0; i < profile->chips; ++i) {
    EXPECT_EQ(profile->places[i].neighbour_count, 4);
    routing_ids.insert(profile->places[i].routing_id);
  }
  EXPECT_EQ(routing_ids.size(), 16u);
  EXPECT_EQ(*routing_ids.rbegin(), 15u);
  // Routing id 4 is device 12; device 12's neighbours by shared engine.
  EXPECT_EQ(profile->places[12].routing_id, 4u);
  EXPECT_EQ(profile->places[12].neighbours[0], 0);
  EXPECT_EQ(profile->places[12].neighbours[1], 13);
  EXPECT_EQ(profile->places[12].neighbours[2], 15);
  EXPECT_EQ(profile->places[12].neighbours[3], 8);
}

TEST(Profiles, AFileOfTheUserIsReadByItsPath) {
  const std::string path = std::string(NEURON_SOURCE_DIR) + "/driver/profiles/inf2.24xlarge.json";
  std::string error;
  const Profile* profile = load_profile(path, error);
  ASSERT_NE(profile, nullptr) << error;
  EXPECT_EQ(profile->chips, 6u);
  EXPECT_EQ(load_profile("/nowhere/there.json", error), nullptr);
  EXPECT_THAT(error, HasSubstr("/nowhere/there.json cannot be read: No such file"));
  EXPECT_EQ(load_profile("trn9.huge", error), nullptr);
  EXPECT_THAT(error, HasSubstr("\"trn9.huge\" is no emulated instance type; known are"));
  EXPECT_THAT(error, HasSubstr("trn2.48xlarge"));
}

TEST(Profiles, ASocketIsNoProfileAndIsToldWithWhatConnectsToIt) {
  const test::Folder folder;
  const std::string path = folder.path("daemon.sock");
  const base::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  std::string error;
  EXPECT_EQ(load_profile(path, error), nullptr);
  EXPECT_EQ(error, "the profile " + path +
                       " is a socket; if a daemon listens there, NEURON_EMULATOR is unix:" + path);
}

TEST(Profiles, ChipsOfGenerationThreeAndFourHaveAllEightCores) {
  for (const char* one : {"trn2.3xlarge", "trn3pd98.3xlarge"}) {
    EXPECT_THAT(refusal(changed(one, "\"cores\": 8", "\"cores\": 4")),
                HasSubstr("field \"cores\" is 4, expected 8"));
  }
}

TEST(Profiles, EachFieldThatIsWrongHasItsSentence) {
  const char* const one = "trn1.2xlarge";
  const auto says = [&](const char* from, const char* to, const char* sentence) {
    EXPECT_THAT(refusal(changed(one, from, to)), HasSubstr(sentence));
  };
  says("{\n", "[\n", "is no JSON");
  says("\"trn1.2xlarge\"", "\"a/b\"", "field \"name\" is \"a/b\", expected 1 to 48");
  says("\"0x7164\"", "\"0x7364\"",
       "field \"pci_device\" is \"0x7364\", expected \"0x7164\" or \"0x7264\" for generation 2");
  says("\"0x7164\"", "29028", "field \"pci_device\" is 29028");
  says("\"revision\": 1", "\"revision\": 256", "field \"revision\" is 256, expected a number");
  says("\"generation\": 2", "\"generation\": 5", "field \"generation\" is 5, expected a number");
  says("\"cores\": 2", "\"cores\": 3", "field \"cores\" is 3, expected a number from 1 to 2");
  says("\"cores\": 2", "\"cores\": 2.5", "field \"cores\" is 2.5");
  says("\"gib\": 16", "\"gib\": 17", "field \"hbm.gib\" is 17, expected a number from 1 to 16");
  says("\"stacks\": 2", "\"stacks\": 1", "field \"hbm.stacks\" is 1");
  says("\"gib\": 16", "\"gigabytes\": 16", "field \"hbm.gigabytes\" is unknown");
  says("\"adapters\": [],", "", "field \"adapters\" is missing");
  says("\"adapters\": []", "\"adapters\": 8",
       "field \"adapters\" is 8, expected a list of at most 64 network adapters");
  says("\"adapters\"", "\"efa\": 8, \"adapters\"", "field \"efa\" is unknown");
  says("\"routing_id\": 0", "\"routing_id\": 16",
       "field \"chips[0].routing_id\" is 16, expected a number from 0 to 15");
  says("0000:00:1e.0", "0000:00:3e.0", "field \"chips[0].address\" is \"0000:00:3e.0\"");
  says("0000:00:1e.0", "0000:00:1e.x", "expected a PCI address such as");
  says("\"numa_node\": -1", "\"numa_node\": -2", "field \"chips[0].numa_node\" is -2");
  says("\"neighbours\": []", "\"neighbours\": [1]", "expected device numbers from 0 to 0");
  says("\"neighbours\": []", "\"neighbours\": [0]", "names device 0, itself");
  says("\"neighbours\": []", "\"neighbors\": []", "field \"chips[0].neighbors\" is unknown");
  says("    {\"rou", "    7, {\"rou", "field \"chips[0]\" is 7, expected an object");
}

TEST(Profiles, LinksHaveTwoEndsAndChipsTheirOwnPlaces) {
  const char* const chain = "inf2.24xlarge";
  EXPECT_THAT(refusal(changed(chain, "\"neighbours\": [1]", "\"neighbours\": [2]")),
              HasSubstr("\"chips[0].neighbours\" names device 2, which does not name it"));
  EXPECT_THAT(refusal(changed(chain, "[0, 2]", "[0, 0]")), HasSubstr("names device 0 twice"));
  EXPECT_THAT(refusal(changed(chain, "\"routing_id\": 1", "\"routing_id\": 0")),
              HasSubstr("\"chips[1].routing_id\" is 0, which chips[0] has already"));
  EXPECT_THAT(refusal(changed(chain, "0000:20:1e.0", "0000:10:1e.0")),
              HasSubstr("\"chips[1].address\" is the one of chips[0]"));
}

TEST(Profiles, EachFieldOfAnAdapterThatIsWrongHasItsSentence) {
  const char* const one = "trn1.32xlarge";
  const auto says = [&](const char* from, const char* to, const char* sentence) {
    EXPECT_THAT(refusal(changed(one, from, to)), HasSubstr(sentence));
  };
  const char* const first = R"({"address": "0000:10:1a.0", "numa_node": 0})";
  says(first, "7", "field \"adapters[0]\" is 7, expected an object");
  says(first, R"({"address": "0000:10:1a.0"})", "field \"adapters[0].numa_node\" is missing");
  says(first, R"({"address": "0000:10:1a.0", "numa_node": 0, "speed": 1})",
       "field \"adapters[0].speed\" is unknown");
  says(first, R"({"address": "10:1a.0", "numa_node": 0})",
       "field \"adapters[0].address\" is \"10:1a.0\", expected a PCI address such as");
  says(first, R"({"address": "0000:10:1a.0", "numa_node": 128})",
       "field \"adapters[0].numa_node\" is 128");
  says("0000:a0:1a.0", "0000:10:1a.0", "\"adapters[1].address\" is the one of adapters[0]");
  says("0000:10:19.0", "0000:20:1c.0", "\"adapters[6].address\" is the one of chips[5]");
  says("\"neighbours\"", "\"adapter\": 8, \"neighbours\"",
       "field \"chips[0].adapter\" is 8, expected a number from 0 to 7");
  says(
      "\"nics\": 8", "\"nics\": 16",
      "field \"devices.adapters\" lists 8 network adapters, but the field \"topology.nics\" is 16");
  EXPECT_THAT(refusal(changed("trn1.2xlarge", "\"neighbours\"", "\"adapter\": 0, \"neighbours\"")),
              HasSubstr("\"chips[0].adapter\" is 0, but the field \"adapters\" lists none"));
}

TEST(Profiles, TheNearestAdapterIsTheOneThatThePublicTablesName) {
  const Profile* trn1 = find_profile("trn1.32xlarge");
  ASSERT_EQ(trn1->efa, 8u);
  EXPECT_EQ(trn1->places[1].adapter, 0);
  EXPECT_EQ(trn1->places[2].adapter, 1);
  const AdapterPlace& last = trn1->adapters[trn1->places[13].adapter];
  EXPECT_EQ(last.bus, 0x10);
  EXPECT_EQ(last.slot, 0x19);
  const Profile* trn2 = find_profile("trn2.48xlarge");
  EXPECT_EQ(trn2->adapters[trn2->places[0].adapter].bus, 0xc9);
  EXPECT_EQ(trn2->adapters[trn2->places[15].adapter].bus, 0xf6);
  EXPECT_EQ(find_profile("trn1.2xlarge")->places[0].adapter, -1);
  std::string error;
  const Profile* mine =
      parse_profile(changed("trn1.32xlarge", "\"neighbours\"", "\"adapter\": 7, \"neighbours\""),
                    "mine.json", error);
  ASSERT_NE(mine, nullptr) << error;
  EXPECT_EQ(mine->places[0].adapter, 7);
}

class NearestAdapter : public ::testing::Test {
 protected:
  static ChipPlace chip(uint8_t bus, int8_t node, int8_t adapter = -1) {
    ChipPlace place = {};
    place.bus = bus;
    place.numa_node = node;
    place.adapter = adapter;
    return place;
  }
  static AdapterPlace at(uint8_t bus, int8_t node, uint16_t domain = 0) {
    return {domain, bus, 0, 0, node};
  }
  std::vector<int> assigned() {
    assign_adapters(chips, adapters);
    std::vector<int> found;
    for (const ChipPlace& place : chips) found.push_back(place.adapter);
    return found;
  }
  std::vector<ChipPlace> chips;
  std::vector<AdapterPlace> adapters;
};

TEST_F(NearestAdapter, IsOnTheBusOfTheChipElseOnItsNodeElseAnywhere) {
  adapters = {at(9, 1), at(3, 0), at(2, 1)};
  chips = {chip(2, 0), chip(5, 0), chip(5, 1), chip(5, 1), chip(6, 7)};
  EXPECT_EQ(assigned(), (std::vector{2, 1, 0, 2, 0}));
}

TEST_F(NearestAdapter, ABusOfAnotherDomainIsAnotherBus) {
  adapters = {at(2, -1, 1), at(2, -1, 0)};
  chips = {chip(2, -1)};
  EXPECT_EQ(assigned(), std::vector{1});
}

TEST_F(NearestAdapter, ServesNeighbouringChipsAndAsManyAsTheOthers) {
  adapters.assign(2, at(1, 0));
  chips.assign(5, chip(1, 0));
  EXPECT_EQ(assigned(), (std::vector{0, 0, 0, 1, 1}));
  adapters.assign(4, at(1, 0));
  chips.assign(2, chip(1, 0));
  EXPECT_EQ(assigned(), (std::vector{0, 2}));
}

TEST_F(NearestAdapter, IsNotLookedForWhereTheProfileSaysItOrThereIsNone) {
  adapters.assign(2, at(1, 0));
  chips = {chip(1, 0, 1), chip(1, 0)};
  EXPECT_EQ(assigned(), (std::vector{1, 0}));
  adapters.clear();
  chips.assign(1, chip(1, 0));
  EXPECT_EQ(assigned(), std::vector{-1});
}

}  // namespace
}  // namespace neuron::profiles
