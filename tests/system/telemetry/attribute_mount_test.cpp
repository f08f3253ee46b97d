// SPDX-License-Identifier: Apache-2.0
// neuron-emulatord --sysfs: the tree as files, read and written as scripts do. Needs /dev/fuse and
// the right to mount; where either is missing these tests fail, as nobody else looks at this.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/multi/processes.h"

namespace neuron::telemetry {
namespace {

using multi::Clock;
using multi::contents;
using multi::Folder;
using multi::Process;
using multi::Worker;
using ::testing::HasSubstr;

class AttributeFiles : public ::testing::Test {
 protected:
  AttributeFiles() : mount_(folder_.path() + "/sysfs"), socket_(folder_.path() + "/socket") {}
  // Until it answers, or ends.
  void start(const std::string& mount) {
    process_ = std::make_unique<Process>(
        std::vector<std::string>{std::string(NEURON_BUILD_DIR) + "/bin/neuron-emulatord",
                                 "--profile", "trn1.32xlarge", "--socket", socket_, "--sysfs",
                                 mount},
        std::map<std::string, std::string>{}, log());
    const auto end = Clock::now() + multi::kPatience;
    while (!process_->ended() && Clock::now() < end &&
           contents(mount_ + "/neuron0/core_count").empty()) {
      ::usleep(1000);
    }
  }
  std::string log() const { return folder_.path() + "/log"; }
  std::string file(const std::string& path) { return contents(mount_ + "/" + path); }

  const Folder folder_;
  const std::string mount_, socket_;
  std::unique_ptr<Process> process_;
};

TEST_F(AttributeFiles, ShowTheTreeOfEachDeviceAndCountWhatRan) {
  std::filesystem::create_directory(mount_);
  start(mount_);
  ASSERT_FALSE(process_->ended())
      << "the tree is not shown, is /dev/fuse there, and may this user mount? " << contents(log());
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
    Worker worker(folder_, "unix:" + socket_, 1, "empty.neff");
    ASSERT_EQ(worker.line(), "ready") << worker.log();
    worker.ask("launch 5");
  }
  // The daemon notices the end of the worker by itself.
  const auto end = Clock::now() + multi::kPatience;
  while (file(success + "total") == "0\n" && Clock::now() < end) ::usleep(1000);
  EXPECT_NE(file(success + "total"), "0\n");
  EXPECT_EQ(file(success + "total"), file(success + "present"));
  std::ofstream(mount_ + "/" + success + "total") << "0";
  EXPECT_EQ(file(success + "total"), "0\n");
  EXPECT_NE(file(success + "present"), "0\n");

  // The mount ends with the daemon.
  process_->signal(SIGTERM);
  while (!process_->ended() && Clock::now() < end) ::usleep(1000);
  EXPECT_TRUE(process_->ended());
  EXPECT_TRUE(std::filesystem::is_empty(mount_));
}

TEST_F(AttributeFiles, AFolderThatIsNotThereIsNamed) {
  start(folder_.path() + "/nowhere");
  EXPECT_TRUE(process_->ended());
  EXPECT_THAT(contents(log()), HasSubstr("/nowhere: No such file or directory; make the folder"));
}

}  // namespace
}  // namespace neuron::telemetry
