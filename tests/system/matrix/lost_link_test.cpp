// SPDX-License-Identifier: Apache-2.0
// A link that is down while ranks use it: cores of a device that fail together are reset one after
// the other, and the sentence names the CC core and both chips.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/daemon.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::matrix {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(LostLink, IsToldAsTheCcCoreAndBothChipsAndEveryCoreIsReset) {
  const test::Folder folder;
  const test::Daemon daemon(folder, "trn1.32xlarge");
  ASSERT_EQ(daemon.control({"link", "down", "0", "1"}), 0);
  const test::Run run = test::shell(
      test::built("bin/nccom-test --backend device -r 32 -n 1 -w 0 -b 64K -e 64K -d fp32 "
                  "--non-interactive allr"),
      {{"NEURON_EMULATOR", daemon.emulator()}});
  EXPECT_EQ(run.ending, 1) << run.output;
  EXPECT_THAT(run.output, Not(HasSubstr("reset whose result it has not fetched")));
  EXPECT_THAT(run.output, Not(HasSubstr("cannot be used until the runtime is closed")));
  EXPECT_THAT(run.output,
              ContainsRegex("failed on device [0-9]+ core [01] with LINK at its CC core [0-9]+ "
                            ".instruction [0-9]+ of that core's program.; found no way over links "
                            "that work from device [0-9]+ to device [0-9]+ .routing id [0-9]+.,"));
  EXPECT_THAT(run.output, Not(HasSubstr("engine 5"))) << "a number says nothing to an operator";
  // The chips work: with the link up, the same ranks succeed at once.
  ASSERT_EQ(daemon.control({"link", "up", "0", "1"}), 0);
  const test::Run again = test::shell(
      test::built("bin/nccom-test --backend device -r 32 -n 1 -w 0 -b 64K -e 64K -d fp32 --check "
                  "--seed 1 --non-interactive allr"),
      {{"NEURON_EMULATOR", daemon.emulator()}});
  EXPECT_EQ(again.ending, 0) << again.output;
}

// Chips of trn3 have no links to neighbours: the way between two chips goes through a switch.
TEST(LostLink, ThroughASwitchClosesTheWayOfTwoChipsAndNoOther) {
  const test::Folder folder;
  const test::Daemon daemon(folder, "trn3-ultraserver-gen2");
  const auto run = [&](const std::string& command) {
    return test::shell(test::built("bin/nccom-test --backend device -n 1 -w 0 -d fp32 --check "
                                   "--seed 1 --non-interactive ") +
                           command,
                       {{"NEURON_EMULATOR", daemon.emulator()}});
  };
  ASSERT_EQ(daemon.control({"link", "down", "2", "3"}), 0);
  const test::Run others = run("-r 8 -b 4K -e 4K alltoall");
  EXPECT_EQ(others.ending, 0) << "four virtual cores each of chips 0 and 1: " << others.output;
  const test::Run all = run("-r 16 -b 4K -e 4K alltoall");
  EXPECT_EQ(all.ending, 1) << all.output;
  EXPECT_THAT(all.output, ContainsRegex("found no way over links that work from device [23] to "
                                        "device [23] .routing id [23].,"));
  ASSERT_EQ(daemon.control({"link", "up", "3", "2"}), 0);
  const test::Run again = run("-r 16 -b 4K -e 4K alltoall");
  EXPECT_EQ(again.ending, 0) << again.output;
}

}  // namespace
}  // namespace neuron::matrix
