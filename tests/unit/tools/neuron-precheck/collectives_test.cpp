// SPDX-License-Identifier: Apache-2.0
// Whom neuron-precheck holds responsible for a collective that failed.
#include "tools/neuron-precheck/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::precheck {
namespace {

using checks::Action;
using checks::Finding;

const std::vector<Rank> kRanks = {{4, 2, 0}, {5, 2, 1}, {6, 3, 0}};

Finding placed(const std::string& sentence) {
  Finding finding;
  place_failure(sentence, kRanks, finding);
  return finding;
}

TEST(PrecheckCollectives, NameNoDeviceWhereAllRanksAlikeWereLate) {
  const Finding finding = placed(
      "all_reduce 65536 B: no rank has got on for 12500 ms; missing: rank 0: preparing all_reduce "
      "65536 B; rank 1: preparing all_reduce 65536 B; rank 2: preparing all_reduce 65536 B");
  EXPECT_EQ(finding.device, -1);
  EXPECT_EQ(finding.core, -1);
  EXPECT_EQ(finding.action, Action::kNone);
  EXPECT_THAT(finding.expected, testing::HasSubstr("--timeout"));
}

TEST(PrecheckCollectives, NameTheDeviceOfTheRankThatIsLateWhileOthersAreNot) {
  const Finding finding = placed(
      "all_reduce 65536 B: no rank has got on for 12500 ms; missing: rank 2: preparing all_reduce "
      "65536 B");
  EXPECT_EQ(finding.device, 3);
  EXPECT_EQ(finding.core, 0);
  EXPECT_EQ(finding.action, Action::kResetDevice);
}

TEST(PrecheckCollectives, NameTheDeviceThatTheRuntimeNames) {
  const Finding finding = placed(
      "rank 0: executing: model 'allr' failed on device 2 core 1 with DMA_ENGINE at DMA "
      "engine 5 queue 15 ring index 3");
  EXPECT_EQ(finding.device, 2);
  EXPECT_EQ(finding.core, 1);
  EXPECT_EQ(finding.engine, "DMA 5");
  EXPECT_EQ(finding.action, Action::kReplaceInstance);
}

}  // namespace
}  // namespace neuron::precheck
