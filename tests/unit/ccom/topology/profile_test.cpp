// SPDX-License-Identifier: Apache-2.0
#include "ccom/topology/profile.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "tests/support/files.h"

namespace neuron::ccom {
namespace {

const std::string kSmall =
    R"({"name":"x","chips":2,"ranks_per_chip":1,"dma_engines":1,"collective_cores":1,
"hbm_gigabytes_per_second":1,"dma_gigabytes_per_second":1,"nics":0,"pod":"none","pod_nodes":1,
"link":{"gigabytes_per_second":1,"latency_ns":1},"neighbours":[[1],[0]],"rings":[]})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Profile, EveryCarriedOneIsReadAndCalledAsItsFile) {
  const std::vector<std::string> names = profile_names();
  EXPECT_EQ(names.size(), 15u);
  for (const std::string& name : names) {
    const auto profile = Topology::profile(name);
    ASSERT_TRUE(profile) << profile.error().sentence;
    EXPECT_EQ(profile->name, name);
  }
}

TEST(Profile, TheTorusHasTwoEdgeDisjointHamiltonianCyclesThatUseAllLinks) {
  for (const char* name : {"trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge"}) {
    const auto profile = Topology::profile(name);
    ASSERT_TRUE(profile);
    std::set<std::pair<uint32_t, uint32_t>> links, used;
    for (uint32_t chip = 0; chip < profile->chips; ++chip) {
      EXPECT_EQ(profile->neighbours[chip].size(), 4u);
      for (uint32_t other : profile->neighbours[chip]) {
        links.insert({std::min(chip, other), std::max(chip, other)});
      }
    }
    ASSERT_EQ(profile->rings.size(), 2u);
    for (const auto& ring : profile->rings) {
      EXPECT_EQ(std::set<uint32_t>(ring.begin(), ring.end()).size(), 16u);
      for (size_t i = 0; i < ring.size(); ++i) {
        const uint32_t a = ring[i], b = ring[(i + 1) % ring.size()];
        EXPECT_TRUE(used.insert({std::min(a, b), std::max(a, b)}).second);
      }
    }
    EXPECT_EQ(links, used);
    EXPECT_EQ(links.size(), 32u);
  }
}

TEST(Profile, NeighboursOfTheTorusAreOneStepAwayInOneDirection) {
  for (const char* name : {"trn1.32xlarge", "trn2.48xlarge"}) {
    const auto profile = Topology::profile(name);
    for (uint32_t chip = 0; chip < 16; ++chip) {
      for (uint32_t other : profile->neighbours[chip]) {
        const uint32_t rows = (chip / 4 + 4 - other / 4) % 4, columns = (chip + 4 - other) % 4;
        EXPECT_EQ(std::min(rows, 4 - rows) + std::min(columns, 4 - columns), 1u);
      }
    }
  }
}

TEST(Profile, RanksArePlacedNodeByNodeChipByChipCoreByCore) {
  const Topology topology(*Topology::profile("trn1.32xlarge"), 3);
  EXPECT_EQ(topology.ranks(), 96u);
  EXPECT_EQ(topology.place(0), (Place{0, 0, 0, 0}));
  EXPECT_EQ(topology.place(33), (Place{1, 0, 1, 0}));
  EXPECT_EQ(topology.place(95), (Place{2, 15, 1, 0}));
}

TEST(Profile, AnUnknownNameIsAnsweredWithThoseThatThereAre) {
  const auto profile = Topology::profile("trn9");
  ASSERT_FALSE(profile);
  EXPECT_NE(profile.error().sentence.find("\"trn9\""), std::string::npos);
  EXPECT_NE(profile.error().sentence.find("trn2-ultraserver"), std::string::npos);
}

TEST(Profile, AFileIsReadByItsPath) {
  const test::Folder folder;
  const auto profile = Topology::profile(folder.write("x.json", kSmall));
  EXPECT_TRUE(profile) << profile.error().sentence;
  const auto missing = Topology::profile(folder.path("y.json"));
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().sentence.find("y.json"), std::string::npos);
}

TEST(Profile, ErrorsNameFileFieldFoundAndExpected) {
  const struct {
    std::string text, words;
  } cases[] = {
      {replaced(kSmall, "\"chips\":2", "\"chips\":0"), "\"chips\" is 0"},
      {replaced(kSmall, "\"chips\":2,", ""), "\"chips\" is missing"},
      {replaced(kSmall, "\"chips\"", "\"ships\""), "\"ships\" is unknown"},
      {replaced(kSmall, "[[1],[0]]", "[[1],[]]"), "\"neighbours[0]\" names chip 1, which does not"},
      {replaced(kSmall, "[[1],[0]]", "[[1],[7]]"), "\"neighbours[1]\" is [7]"},
      {replaced(kSmall, "[[1],[0]]", "[[1]]"), "\"neighbours\" has 1 lists"},
      {replaced(kSmall, "\"rings\":[]", "\"rings\":[[0,1]]"), "link between chips 0 and 1 again"},
      {replaced(kSmall, "\"rings\":[]", "\"rings\":[[0,0]]"), "no ring"},
      {replaced(kSmall, "\"latency_ns\":1", "\"latency_ns\":-1"), "\"link.latency_ns\" is -1"},
      {replaced(kSmall, "{\"gigabytes_per_second\":1,", "{\"gigabytes_per_second\":1e999,"),
       "f.json"},
      {replaced(kSmall, "\"pod\":\"none\"", "\"pod\":\"ring\""), "\"pod\" is \"ring\""},
      {replaced(kSmall, "\"pod_nodes\":1", "\"pod_nodes\":2"), "\"pod_nodes\" is 2"},
      {replaced(kSmall, "\"none\"", "\"peer_to_peer\""), "\"pod_nodes\" is 1"},
      {replaced(kSmall, "\"none\",\"pod_nodes\":1", "\"switch\",\"pod_nodes\":2"),
       "\"pod_link\" is missing"},
      {replaced(replaced(kSmall, "\"none\"", "\"switch\""),
                "\"link\":{\"gigabytes_per_second\":1,\"latency_ns\":1},\"neighbours\":[[1],[0]]",
                "\"neighbours\":[[],[]]"),
       "\"link\" is missing although a switch"},
      {replaced(kSmall, "\"nics\":0", "\"nics\":1"), "\"nic\" is missing"},
      {replaced(kSmall, "}", ""), "f.json"},
      {"[]", "is [], expected an object"},
      {"{\n\n!", "line 3"},
  };
  for (const auto& entry : cases) {
    const auto profile = parse_profile(entry.text, "f.json");
    ASSERT_FALSE(profile) << entry.words;
    EXPECT_NE(profile.error().sentence.find(entry.words), std::string::npos)
        << profile.error().sentence;
    EXPECT_NE(profile.error().sentence.find("f.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace neuron::ccom
