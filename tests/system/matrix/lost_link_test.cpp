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

}  // namespace
}  // namespace neuron::matrix
