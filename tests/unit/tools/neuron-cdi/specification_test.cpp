// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-cdi/specification.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "tools/common/json_text.h"

namespace neuron::cdi {
namespace {

namespace json = boost::json;

Wishes two_devices() {
  Wishes wishes;
  wishes.devices = {{0, 0, 2}, {1, 2, 2}};
  return wishes;
}

std::string text(const json::object& object, const char* member) {
  const json::value* value = object.if_contains(member);
  return value && value->is_string() ? std::string(value->as_string()) : "";
}

std::set<std::string> keys(const json::object& object) {
  std::set<std::string> found;
  for (const auto& member : object) found.emplace(member.key());
  return found;
}

void expect_within(const std::set<std::string>& found, const std::set<std::string>& known) {
  for (const std::string& key : found) EXPECT_TRUE(known.count(key)) << key;
}

// The rules of the published schema (0.5 to 0.7) for container edits.
void check_edits(const json::object& edits) {
  expect_within(keys(edits), {"env", "deviceNodes", "mounts", "hooks", "additionalGids"});
  EXPECT_FALSE(edits.empty());
  if (const json::value* list = edits.if_contains("env")) {
    EXPECT_FALSE(list->as_array().empty());
    for (const auto& line : list->as_array()) {
      EXPECT_TRUE(std::regex_match(std::string(line.as_string()), std::regex("[^=]+=.+")));
    }
  }
  if (const json::value* list = edits.if_contains("deviceNodes")) {
    EXPECT_FALSE(list->as_array().empty());
    for (const auto& entry : list->as_array()) {
      const json::object& node = entry.as_object();
      expect_within(keys(node), {"path", "hostPath", "type", "major", "minor", "fileMode",
                                 "permissions", "uid", "gid"});
      EXPECT_EQ(text(node, "path").rfind('/', 0), 0u);
      EXPECT_TRUE(std::regex_match(text(node, "type"), std::regex("[bcup]?")));
      EXPECT_TRUE(std::regex_match(text(node, "permissions"), std::regex("[rwm]*")));
    }
  }
  if (const json::value* list = edits.if_contains("mounts")) {
    EXPECT_FALSE(list->as_array().empty());
    for (const auto& entry : list->as_array()) {
      const json::object& mount = entry.as_object();
      expect_within(keys(mount), {"hostPath", "containerPath", "options", "type"});
      EXPECT_EQ(text(mount, "hostPath").rfind('/', 0), 0u);
      EXPECT_EQ(text(mount, "containerPath").rfind('/', 0), 0u);
      for (const auto& option : mount.at("options").as_array()) EXPECT_TRUE(option.is_string());
    }
  }
}

void check_schema(const json::object& specification) {
  expect_within(keys(specification),
                {"cdiVersion", "kind", "devices", "containerEdits", "annotations"});
  EXPECT_TRUE(
      std::regex_match(text(specification, "cdiVersion"), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+")));
  EXPECT_TRUE(std::regex_match(text(specification, "kind"),
                               std::regex("[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_-]*")));
  std::set<std::string> names;
  for (const auto& entry : specification.at("devices").as_array()) {
    const json::object& device = entry.as_object();
    expect_within(keys(device), {"name", "containerEdits", "annotations"});
    const std::string name = text(device, "name");
    EXPECT_TRUE(std::regex_match(name, std::regex("[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")))
        << name;
    EXPECT_TRUE(names.insert(name).second) << name << " twice";
    check_edits(device.at("containerEdits").as_object());
  }
  EXPECT_FALSE(names.empty());
  if (const json::value* edits = specification.if_contains("containerEdits")) {
    check_edits(edits->as_object());
  }
}

std::string edits_of(const json::object& specification, const std::string& name) {
  for (const auto& entry : specification.at("devices").as_array()) {
    if (text(entry.as_object(), "name") == name) {
      return tools::json_text(entry.as_object().at("containerEdits"));
    }
  }
  return "no " + name;
}

TEST(CdiSpecification, NamesEachDeviceEachCoreAndAllOfThem) {
  const auto specification = make_specification(two_devices());
  ASSERT_TRUE(specification);
  check_schema(*specification);
  EXPECT_EQ(specification->at("devices").as_array().size(), 2u + 4u + 1u);
  EXPECT_EQ(specification->if_contains("containerEdits"), nullptr);
  EXPECT_EQ(edits_of(*specification, "neuron1"),
            R"({"deviceNodes":[{"path":"/dev/neuron1","type":"c","permissions":"rw"}]})");
  const std::string all = edits_of(*specification, "all");
  EXPECT_NE(all.find("/dev/neuron0"), std::string::npos) << all;
  EXPECT_NE(all.find("/dev/neuron1"), std::string::npos) << all;
}

TEST(CdiSpecification, CountsACoreFromZeroWithinTheNodesOfTheContainer) {
  const auto specification = make_specification(two_devices());
  ASSERT_TRUE(specification);
  const std::string edits = edits_of(*specification, "neuron1core1");
  EXPECT_NE(edits.find("/dev/neuron1"), std::string::npos) << edits;
  EXPECT_NE(edits.find(R"("NEURON_RT_VISIBLE_CORES=1")"), std::string::npos) << edits;
}

TEST(CdiSpecification, MountsTheSocketOfADaemonInPlaceOfNodesAndCountsOverItsDevices) {
  Wishes wishes = two_devices();
  wishes.socket = "/run/neuron-emulator/trn1.2xlarge";
  const auto specification = make_specification(wishes);
  ASSERT_TRUE(specification);
  check_schema(*specification);
  EXPECT_EQ(tools::json_text(*specification).find("/dev/neuron"), std::string::npos);
  EXPECT_EQ(edits_of(*specification, "neuron1"), R"({"env":["NEURON_RT_VISIBLE_CORES=2-3"]})");
  EXPECT_EQ(edits_of(*specification, "neuron1core1"), R"({"env":["NEURON_RT_VISIBLE_CORES=3"]})");
  EXPECT_EQ(edits_of(*specification, "all"), R"({"env":["NEURON_RT_VISIBLE_CORES=0-3"]})");
  const std::string common = tools::json_text(specification->at("containerEdits"));
  EXPECT_NE(common.find("NEURON_EMULATOR=unix:/run/neuron-emulator/trn1.2xlarge"),
            std::string::npos);
  EXPECT_NE(common.find(R"("hostPath":"/run/neuron-emulator/trn1.2xlarge")"), std::string::npos);
}

TEST(CdiSpecification, GivesAGroupOfDevicesANameOfItsOwn) {
  Wishes wishes = two_devices();
  wishes.devices.push_back({2, 4, 2});
  wishes.groups = {{1, 2}};
  const auto specification = make_specification(wishes);
  ASSERT_TRUE(specification);
  check_schema(*specification);
  const std::string edits = edits_of(*specification, "neuron1-2");
  EXPECT_EQ(edits.find("/dev/neuron0"), std::string::npos) << edits;
  EXPECT_NE(edits.find("/dev/neuron2"), std::string::npos) << edits;
}

TEST(CdiSpecification, RefusesAGroupWithDevicesThatAreNotThere) {
  Wishes wishes = two_devices();
  wishes.groups = {{1, 2}};
  const auto specification = make_specification(wishes);
  ASSERT_FALSE(specification);
  EXPECT_NE(specification.error().sentence.find("it has 0 to 1"), std::string::npos);
  // A hole between them counts too.
  wishes.devices = {{0, 0, 2}, {2, 2, 2}};
  wishes.groups = {{0, 2}};
  EXPECT_FALSE(make_specification(wishes));
}

TEST(CdiSpecification, AsksForANewerEngineOnlyIfItMust) {
  Wishes wishes = two_devices();
  wishes.mounts = {{"/usr/lib/libnrt.so.1.0.0", "/opt/aws/neuron/lib/libnrt.so.1"}};
  wishes.environment = {"LD_LIBRARY_PATH=/opt/aws/neuron/lib"};
  auto specification = make_specification(wishes);
  ASSERT_TRUE(specification);
  check_schema(*specification);
  EXPECT_EQ(text(*specification, "cdiVersion"), "0.5.0");
  wishes.group_id = 987;
  specification = make_specification(wishes);
  ASSERT_TRUE(specification);
  check_schema(*specification);
  EXPECT_EQ(text(*specification, "cdiVersion"), "0.7.0");
}

TEST(CdiSpecification, RefusesKindsThatEnginesWouldRefuse) {
  for (const char* kind : {"", "neuron", "/neuron", "vendor/", "1vendor/neuron", "vendor./neuron",
                           "vendor/neu.ron", "ven dor/neuron", "vendor/neuron/x"}) {
    Wishes wishes = two_devices();
    wishes.kind = kind;
    EXPECT_FALSE(make_specification(wishes)) << kind;
  }
}

TEST(CdiGroup, IsTwoNumbersInOrder) {
  const auto group = parse_group("4-7");
  ASSERT_TRUE(group);
  EXPECT_EQ(*group, (std::pair<unsigned, unsigned>(4, 7)));
  for (const char* wrong :
       {"", "4", "-", "4-", "-7", "7-4", "4-4", "4-7x", "a-b", "4--7", "99999999999-3"}) {
    EXPECT_FALSE(parse_group(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace neuron::cdi
