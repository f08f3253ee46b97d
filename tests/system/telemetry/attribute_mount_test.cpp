// SPDX-License-Identifier: Apache-2.0
// neuron-emulatord --sysfs: the tree as files, read and written as scripts do. Needs /dev/fuse and
// the right to mount; where either is missing these tests fail, as nobody else looks at this.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/support/daemon.h"

namespace neuron::telemetry {
namespace {

using test::Daemon;
using test::eventually;
using test::Folder;
using test::read_file;
using test::Worker;
using ::testing::HasSubstr;

class AttributeFiles : public ::testing::Test {
 protected:
  // Until it answers, or ends.
  void start(const std::string& mount) {
    daemon_ = std::make_unique<Daemon>(folder_, "trn1.32xlarge",
                                       Daemon::Options{.arguments = {"--sysfs", mount}});
    eventually(
        [this] { return daemon_->process().ended() || !file("neuron0/core_count").empty(); });
  }
  std::string file(const std::string& path) { return read_file(mount_ + "/" + path); }

  const Folder folder_;
  const std::string mount_ = folder_.path("sysfs");
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(AttributeFiles, ShowTheTreeOfEachDeviceAndCountWhatRan) {
  std::filesystem::create_directory(mount_);
  start(mount_);
  ASSERT_FALSE(daemon_->process().ended())
      << "the tree is not shown, is /dev/fuse there, and may this user mount? " << daemon_->log();
  EXPECT_EQ(file("neuron0/core_count"), "2");
  EXPECT_EQ(file("neuron15/info/architecture/device_name"), "Trainium1\n");
  EXPECT_EQ(file("node_id_4"), "-1\n");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(mount_ + "/neuron3")) {
    names.insert(entry.path().filename());
  }
  EXPECT_EQ(names, (std::set<std::string>{"reset", "core_count", "connected_devices", "info",
                                          "stats", "emulator", "neuron_core0", "neuron_core1"}));
  EXPECT_FALSE(std::filesystem::exists(mount_ + "/neuron16"));
  EXPECT_FALSE(std::filesystem::exists(mount_ + "/neuron0/stats/nothing"));

  const std::string success = "neuron0/neuron_core1/stats/status/success/";
  EXPECT_EQ(file(success + "total"), "0\n");
  {
    Worker worker(folder_, daemon_->emulator(), 1, "empty.neff");
    ASSERT_EQ(worker.line(), "ready") << worker.log();
    worker.ask("launch 5");
  }
  // The daemon notices the end of the worker by itself.
  EXPECT_TRUE(eventually([&] { return file(success + "total") != "0\n"; }));
  EXPECT_EQ(file(success + "total"), file(success + "present"));
  test::write_file(mount_ + "/" + success + "total", "0");
  EXPECT_EQ(file(success + "total"), "0\n");
  EXPECT_NE(file(success + "present"), "0\n");

  // The mount ends with the daemon.
  EXPECT_EQ(daemon_->process().stop(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(mount_));
}

TEST_F(AttributeFiles, TellThePlaceInTheUltraServerWhenItsNodesHaveElected) {
  std::filesystem::create_directory(mount_);
  const Folder pod;
  const auto node = [&](const std::string& number, const test::Words& more) {
    Daemon::Options options{.name = "node-" + number,
                            .before = {},
                            .arguments = {"--pod", pod.path(), "--pod-node", number}};
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    return std::make_unique<Daemon>(folder_, "trn2-ultraserver", options);
  };
  daemon_ = node("3", {"--sysfs", mount_});
  ASSERT_TRUE(eventually([this] { return file("node_id_4") == "busy\n"; })) << daemon_->log();
  EXPECT_EQ(file("ultraserver_mode"), "busy\n");
  const auto first = node("0", {}), second = node("1", {}), third = node("2", {});
  EXPECT_TRUE(eventually([this] { return file("node_id_4") == "3\n"; })) << daemon_->log();
  EXPECT_EQ(file("node_id_2"), "1\n");
  EXPECT_EQ(file("ultraserver_mode"), "1,3,4\n");
  for (const char* name : {"server_id_2", "server_id_4"}) {
    EXPECT_EQ(file(name).size(), 17u);
    EXPECT_NE(file(name), "0000000000000000\n");
  }
  EXPECT_NE(file("server_id_2"), file("server_id_4")) << "of node 2, and of node 0";
  EXPECT_EQ(file("neuron0/emulator/joined_nodes"), "1\n");
}

TEST_F(AttributeFiles, OfAnUltraServerOfOneDaemonAreATreeForEachNode) {
  std::filesystem::create_directory(mount_);
  daemon_ =
      std::make_unique<Daemon>(folder_, "trn2-ultraserver",
                               Daemon::Options{.name = "host",
                                               .before = {},
                                               .arguments = {"--ultraserver", "--sysfs", mount_},
                                               .answers_at = "-0"});
  ASSERT_TRUE(eventually([this] { return file("node3/node_id_4") == "3\n"; })) << daemon_->log();
  std::set<std::string> names, serials;
  for (const auto& entry : std::filesystem::directory_iterator(mount_)) {
    names.insert(entry.path().filename());
  }
  EXPECT_EQ(names, (std::set<std::string>{"node0", "node1", "node2", "node3"}));
  for (const std::string node : {"node0", "node1", "node2", "node3"}) {
    EXPECT_EQ(file(node + "/node_id_4"), node.substr(4) + "\n");
    EXPECT_EQ(file(node + "/server_id_4"), file("node0/server_id_4"));
    EXPECT_EQ(file(node + "/neuron15/core_count"), "8");
    EXPECT_EQ(file(node + "/neuron0/emulator/joined_nodes"), "4\n");
    EXPECT_FALSE(std::filesystem::exists(mount_ + "/" + node + "/neuron16"));
    serials.insert(file(node + "/neuron0/info/serial_number"));
  }
  EXPECT_EQ(serials.size(), 4u);
  for (const char* none : {"/neuron0", "/node4", "/node00", "/node_id_4", "/node0/node1"}) {
    EXPECT_FALSE(std::filesystem::exists(mount_ + none)) << none;
  }
  // A counter that is reset on one node stays on the others. The first core of device 0 is its
  // physical core 4.
  const std::string success = "/neuron0/neuron_core4/stats/status/success/total";
  for (const char* node : {"0", "2"}) {
    Worker worker(folder_, "unix:" + folder_.path("host-") + node, 0, "empty.neff",
                  {{"NEURON_LOGICAL_NC_CONFIG", "1"}, {"NEURON_RT_ALLOW_LEGACY_NEFF", "1"}});
    ASSERT_EQ(worker.line(), "ready") << worker.log();
    worker.ask("launch 2");
  }
  EXPECT_TRUE(eventually(
      [&] { return file("node0" + success) != "0\n" && file("node2" + success) != "0\n"; }));
  EXPECT_EQ(file("node1" + success), "0\n");
  test::write_file(mount_ + "/node0" + success, "0");
  EXPECT_EQ(file("node0" + success), "0\n");
  EXPECT_NE(file("node2" + success), "0\n");
  EXPECT_EQ(daemon_->process().stop(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(mount_));
}

TEST_F(AttributeFiles, AFolderThatIsNotThereIsNamed) {
  start(folder_.path("nowhere"));
  EXPECT_TRUE(daemon_->process().ended());
  EXPECT_THAT(daemon_->log(), HasSubstr("/nowhere: No such file or directory; make the folder"));
}

}  // namespace
}  // namespace neuron::telemetry
