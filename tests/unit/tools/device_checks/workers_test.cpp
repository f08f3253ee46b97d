// SPDX-License-Identifier: Apache-2.0
// What workers tell of an emulated device that is in order; tests/system/precheck plants faults.
#include "tools/device_checks/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <sstream>

#include "tests/support/setting.h"

namespace neuron::checks {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Workers : public ::testing::Test {
 protected:
  // Keeps all that the worker writes to standard output.
  void listen(const std::function<void()>& work) {
    ::testing::internal::CaptureStdout();
    work();
    std::istringstream lines(::testing::internal::GetCapturedStdout());
    for (std::string text; std::getline(lines, text);) {
      Line line;
      ASSERT_TRUE(from_line(text, line)) << text;
      if (line.kind == Line::Kind::kStep) steps_.push_back(line.finding);
      if (line.kind == Line::Kind::kFinding) findings_.push_back(line.finding);
    }
  }
  static std::vector<std::string> found(const std::vector<Finding>& list) {
    std::vector<std::string> texts;
    for (const Finding& finding : list) texts.push_back(finding.found);
    return texts;
  }

  std::vector<Finding> steps_, findings_;

 private:
  const test::Setting emulator_{"NEURON_EMULATOR", "trn1.2xlarge"};
};

TEST_F(Workers, TellEachStepOfAResetAndItsEnd) {
  for (const bool force : {false, true}) {
    steps_.clear();
    findings_.clear();
    Part part;
    part.force = force;
    listen([&] { reset_device(part); });
    EXPECT_THAT(found(steps_),
                ElementsAre("claiming its cores", "opening it", "waiting for the driver"));
    EXPECT_THAT(found(findings_), ElementsAre("done"));
    steps_.insert(steps_.end(), findings_.begin(), findings_.end());
    for (const Finding& finding : steps_) {
      EXPECT_EQ(finding.check, "device.reset");
      EXPECT_EQ(finding.device, 0);
      EXPECT_EQ(finding.expected, "a reset that the driver carries out");
      EXPECT_EQ(finding.verdict, Verdict::kPass);
    }
  }
}

TEST_F(Workers, SayOfWhichDeviceTheyCannotTellAnything) {
  Part part;
  part.device = 7;
  listen([&] { reset_device(part); });
  listen([&] { check_memory(part); });
  ASSERT_EQ(findings_.size(), 2u);
  EXPECT_EQ(findings_[0].check, "device.reset");
  EXPECT_EQ(findings_[1].check, "memory.pattern");
  for (const Finding& finding : findings_) {
    EXPECT_EQ(finding.verdict, Verdict::kFail);
    EXPECT_EQ(finding.device, 7);
    EXPECT_NE(finding.found, "");
  }
}

// Both stacks with patterns, and the queues of both cores with copies.
TEST_F(Workers, TellHowMuchMemoryHoldsWhatWasWrittenAndHowFastItIsCopied) {
  Part part;
  part.bytes = 128 << 20;
  listen([&] { check_memory(part); });
  ASSERT_EQ(findings_.size(), 4u);
  for (size_t n = 0; n < 2; ++n) {
    EXPECT_EQ(findings_[n].check, "memory.pattern");
    EXPECT_EQ(findings_[n].engine, "HBM " + std::to_string(n));
    EXPECT_EQ(findings_[n].found, "1 MiB, every 64th piece of 64 MiB, hold what was written");
    EXPECT_EQ(findings_[n + 2].check, "dma.copy");
    EXPECT_EQ(findings_[n + 2].core, static_cast<int>(n));
    EXPECT_THAT(findings_[n + 2].found,
                AllOf(StartsWith("in "), HasSubstr("GB/s, within "), HasSubstr("GB/s, out ")));
  }
  EXPECT_THAT(findings_, Each(::testing::Field(&Finding::verdict, Verdict::kPass)));
}

// Each pattern and the march have a part of the time.
TEST_F(Workers, SayThatThereWasNoTimeForAllOfTheMemory) {
  Part part;
  part.level = 3;
  part.bytes = 4ull << 30;
  part.budget = std::chrono::milliseconds(200);
  listen([&] { check_memory(part); });
  ASSERT_EQ(findings_.size(), 4u);
  for (size_t n = 0; n < 2; ++n) {
    EXPECT_EQ(findings_[n].verdict, Verdict::kPass);
    EXPECT_THAT(findings_[n].found, AllOf(HasSubstr(" MiB hold what was written"),
                                          HasSubstr("there was no time for more (march test: ")));
  }
}

TEST_F(Workers, TellThatProgramsGiveTheRightResultsAndThatAFailureIsReported) {
  Part part;
  part.level = 2;
  const test::Setting core("NEURON_RT_VISIBLE_CORES", "0");
  listen([&] { check_programs(part); });
  ASSERT_EQ(findings_.size(), 2u);
  EXPECT_EQ(findings_[0].check, "core.notifications");
  EXPECT_EQ(findings_[0].found, "a store to where nothing is is reported, with its engine");
  EXPECT_EQ(findings_[1].check, "engine.program");
  EXPECT_THAT(findings_[1].found, StartsWith("right results of "));
  EXPECT_THAT(findings_, Each(::testing::Field(&Finding::verdict, Verdict::kPass)));
  EXPECT_GT(steps_.size(), 10u);
}

// Programs of the first generation that has a public instruction set, on a chip of a later one.
TEST_F(Workers, DoNotBlameADeviceThatTakesNoProgramForItsNotifications) {
  Part part;
  part.level = 2;
  const test::Setting emulator("NEURON_EMULATOR", "trn2.3xlarge"),
      size("NEURON_LOGICAL_NC_CONFIG", "1"), core("NEURON_RT_VISIBLE_CORES", "0");
  listen([&] { check_programs(part); });
  ASSERT_FALSE(findings_.empty());
  const Finding& last = findings_.back();
  EXPECT_EQ(last.check, "core.notifications");
  EXPECT_EQ(last.verdict, Verdict::kSkip);
  EXPECT_THAT(last.found, HasSubstr("the program cannot be loaded: "));
  findings_.pop_back();
  for (const Finding& finding : findings_) {
    EXPECT_EQ(finding.verdict, Verdict::kFail) << finding.found;
    EXPECT_THAT(finding.found, StartsWith("loading "));
  }
}

}  // namespace
}  // namespace neuron::checks
