// SPDX-License-Identifier: Apache-2.0
// The same calls give the same answers on every host of the chip: here in the process and in a
// daemon; the guest of the virtual machine compares its trace with the same file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/support/daemon.h"

namespace neuron {
namespace {

class Hosts : public ::testing::Test {
 protected:
  // Nobody leaves a file behind that is not known here.
  void TearDown() override {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    EXPECT_THAT(std::set<std::string>({"socket", "socket.control", "socket.log", "trace.log"}),
                ::testing::IsSupersetOf(names));
  }

  std::string trace(const std::string& emulator) const {
    test::Process process({test::built("tests/ioctl-trace")},
                          {{"NEURON_EMULATOR", emulator},
                           {"NEURON_EMULATOR_LIBRARY", test::built("lib/libneuron-emulator.so.1")}},
                          folder_.path("trace.log"));
    const std::string text = process.rest();
    EXPECT_EQ(process.wait(), 0) << "ioctl-trace on " << emulator << folder_.read("trace.log");
    return text;
  }

  const std::string expected_ =
      test::read_file(test::source("tests/differential/hosts/ioctl_trace.txt"));
  const test::Folder folder_;
};

TEST_F(Hosts, AnEmbeddedDeviceAnswersAsTheTraceSays) {
  ASSERT_FALSE(expected_.empty());
  EXPECT_EQ(trace("trn1.2xlarge"), expected_);
}

TEST_F(Hosts, ASharedDeviceAnswersAsTheTraceSays) {
  const test::Daemon daemon(folder_);
  EXPECT_EQ(trace(daemon.emulator()), expected_);
}

}  // namespace
}  // namespace neuron
