// SPDX-License-Identifier: Apache-2.0
#include "ccom/proof/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/ccom/plan/groups.h"
#include "tests/unit/ccom/proof/written_schedule.h"

namespace neuron::ccom {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Sample {
  Request request;
  std::unique_ptr<WrittenSchedule> schedule;

  std::vector<Step>& steps(Rank rank, uint32_t channel = 0) {
    return schedule->steps[rank][channel];
  }
  size_t find(Rank rank, StepKind kind, size_t which = 0, uint32_t channel = 0) {
    const auto& all = steps(rank, channel);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].kind == kind && which-- == 0) return i;
    }
    ADD_FAILURE() << "no such step";
    return 0;
  }
  std::string verdict(uint32_t window = 2) const {
    const auto result = check_schedule(*schedule, request, window);
    return result ? "good" : result.error().sentence;
  }
};

Sample sample(ccom_algorithm_t algorithm, ccom_operation_t operation, uint32_t ranks,
              const std::vector<uint32_t>& nodes = {}, uint32_t segments = 0) {
  Sample result;
  const Group group = make_group(nodes.empty() ? std::vector<uint32_t>{ranks} : nodes);
  result.request = make_request(operation, group.ranks(), 48);
  result.request.algorithm = algorithm;
  Parameters parameters;
  parameters.segments = segments;
  const auto plan = Planner(group, {}).plan(result.request, parameters);
  EXPECT_TRUE(plan) << plan.error().sentence;
  if (plan) result.schedule = std::make_unique<WrittenSchedule>(*plan->schedule);
  return result;
}

TEST(Checker, FollowsBothResultsOfADuplicate) {
  for (const auto algorithm : {CCOM_MESH, CCOM_RECURSIVE}) {
    Sample gather = sample(algorithm, CCOM_ALL_GATHER, 4);
    ASSERT_GE(send_duplicates(*gather.schedule), 4u);
    EXPECT_EQ(gather.verdict(), "good");
    Step& both = gather.steps(1)[gather.find(1, StepKind::kDuplicate)];
    both.second.offset += 4;
    EXPECT_NE(gather.verdict(), "good");
    both.second.offset -= 4;
    both.destination.offset ^= 4;
    EXPECT_NE(gather.verdict(), "good");
  }
}

TEST(Checker, PassesWhatIsNotSpoiled) {
  EXPECT_EQ(sample(CCOM_RING, CCOM_ALL_REDUCE, 4).verdict(), "good");
  EXPECT_EQ(sample(CCOM_PIPELINED_TWO_D_RING, CCOM_ALL_REDUCE, 4, {2, 2}, 3).verdict(), "good");
}

TEST(Checker, NamesTheWaitWhenASendIsLeftOut) {
  Sample bad = sample(CCOM_RING, CCOM_ALL_REDUCE, 4);
  bad.steps(1).erase(bad.steps(1).begin() + static_cast<long>(bad.find(1, StepKind::kSend, 5)));
  EXPECT_THAT(bad.verdict(), AllOf(HasSubstr("nobody can go on"), HasSubstr("rank 1")));
}

TEST(Checker, NamesTheStepWhenAReceiveIsLeftOut) {
  Sample bad = sample(CCOM_MESH, CCOM_ALL_GATHER, 3);
  bad.steps(2).erase(bad.steps(2).begin() + static_cast<long>(bad.find(2, StepKind::kReceive)));
  EXPECT_THAT(bad.verdict(), AllOf(HasSubstr("waits for a credit of rank 2"), HasSubstr("ended")));
}

TEST(Checker, RefusesAReductionThatIsLeftOut) {
  Sample bad = sample(CCOM_RING, CCOM_ALL_REDUCE, 4);
  bad.steps(2).erase(bad.steps(2).begin() + static_cast<long>(bad.find(2, StepKind::kReduce)));
  EXPECT_NE(bad.verdict(), "good");
}

TEST(Checker, RefusesAContributionThatCountsTwice) {
  Sample bad = sample(CCOM_RING, CCOM_ALL_REDUCE, 4);
  const size_t at = bad.find(2, StepKind::kReduce);
  Step again = bad.steps(2)[at];
  again.source = again.destination;
  bad.steps(2).insert(bad.steps(2).begin() + static_cast<long>(at) + 1, again);
  EXPECT_THAT(bad.verdict(), AllOf(HasSubstr("rank 2, channel 0"), HasSubstr("rank 2 twice")));
}

TEST(Checker, RefusesSwappedPeers) {
  Sample bad = sample(CCOM_MESH, CCOM_ALL_TO_ALL, 4);
  const size_t first = bad.find(0, StepKind::kSend, 0), second = bad.find(0, StepKind::kSend, 1);
  std::swap(bad.steps(0)[first].peer, bad.steps(0)[second].peer);
  EXPECT_THAT(bad.verdict(), HasSubstr("holds byte"));
}

TEST(Checker, RefusesAWrongOffset) {
  Sample bad = sample(CCOM_RING, CCOM_ALL_REDUCE, 4);
  bad.steps(3)[bad.find(3, StepKind::kReduce)].vector_offset += 4;
  EXPECT_THAT(bad.verdict(), HasSubstr("stands for byte"));
  bad = sample(CCOM_MESH, CCOM_ALL_GATHER, 4);
  bad.steps(3)[bad.find(3, StepKind::kReceive)].destination.offset += 4;
  EXPECT_THAT(bad.verdict(), HasSubstr("rank 3"));
  bad = sample(CCOM_MESH, CCOM_ALL_GATHER, 4);
  bad.steps(3)[bad.find(3, StepKind::kReceive, 2)].destination.offset = uint64_t{1} << 60;
  EXPECT_THAT(bad.verdict(), AllOf(HasSubstr("rank 3, channel 0"), HasSubstr("which has 768")));
}

TEST(Checker, RefusesACircleOfWaits) {
  Sample bad = sample(CCOM_RING, CCOM_ALL_REDUCE, 3);
  for (Rank rank = 0; rank < 3; ++rank) {
    std::swap(bad.steps(rank)[0], bad.steps(rank)[1]);  // everybody receives before sending
  }
  EXPECT_THAT(bad.verdict(), AllOf(HasSubstr("nobody can go on"), HasSubstr("in a circle")));
}

TEST(Checker, RefusesMessagesOfOtherSizes) {
  Sample bad = sample(CCOM_MESH, CCOM_ALL_GATHER, 3);
  bad.steps(1)[bad.find(1, StepKind::kSend)].bytes -= 4;
  EXPECT_THAT(bad.verdict(), AllOf(HasSubstr("has 188 bytes"), HasSubstr("192 are expected")));
}

TEST(Checker, RefusesMessagesThatNobodyReceives) {
  Sample bad = sample(CCOM_RECURSIVE, CCOM_BARRIER, 4);
  bad.steps(1).push_back(bad.steps(1)[bad.find(1, StepKind::kSend)]);
  EXPECT_THAT(bad.verdict(), HasSubstr("waits for a credit"));
}

TEST(Checker, RefusesABarrierThatARankCanLeaveTooEarly) {
  Sample bad = sample(CCOM_RECURSIVE, CCOM_BARRIER, 4);
  for (Rank rank = 0; rank < 4; ++rank) bad.steps(rank).resize(2);
  EXPECT_THAT(bad.verdict(), HasSubstr("without knowing that rank"));
}

TEST(Checker, RefusesToReadWhatNobodyWrote) {
  Sample bad = sample(CCOM_MESH, CCOM_REDUCE_SCATTER, 3);
  bad.steps(0)[bad.find(0, StepKind::kReduce)].source.offset += 4;
  EXPECT_THAT(bad.verdict(), HasSubstr("rank 0, channel 0, step"));
  bad = sample(CCOM_TREE, CCOM_BROADCAST, 4);
  bad.steps(3)[bad.find(3, StepKind::kReceive)].bytes = 0;
  EXPECT_NE(bad.verdict(), "good");
}

TEST(Checker, RefusesToWriteTheInput) {
  Sample bad = sample(CCOM_MESH, CCOM_ALL_GATHER, 3);
  bad.steps(0)[bad.find(0, StepKind::kCopy)].destination = {Buffer::kInput, 0};
  EXPECT_THAT(bad.verdict(), HasSubstr("which is the caller's"));
}

TEST(Checker, RefusesAResultThatSaysItIsNotComplete) {
  Sample bad = sample(CCOM_MESH, CCOM_ALL_REDUCE, 3);
  bad.steps(0)[bad.find(0, StepKind::kReduce)].complete = false;
  EXPECT_THAT(bad.verdict(), HasSubstr("does not say it is complete"));
  bad = sample(CCOM_RING, CCOM_ALL_REDUCE, 3);
  bad.steps(0)[bad.find(0, StepKind::kReduce)].complete = true;
  EXPECT_THAT(bad.verdict(), HasSubstr("lacks the contribution of rank"));
}

TEST(Checker, RefusesResultsInAnotherOrderOnOtherRanks) {
  Sample bad = sample(CCOM_ONE_STEP_MESH, CCOM_ALL_REDUCE, 3);
  Step& sum = bad.steps(1)[bad.find(1, StepKind::kReduce)];
  sum.own_index = 0;
  EXPECT_THAT(bad.verdict(), HasSubstr("in another order than on rank 0"));
}

TEST(Checker, RefusesChannelsThatShareBytesWithoutAWait) {
  Sample bad = sample(CCOM_PIPELINED_TWO_D_RING, CCOM_ALL_REDUCE, 4, {2, 2}, 3);
  for (Rank rank = 0; rank < 4; ++rank) {
    auto& steps = bad.steps(rank, 1);
    std::erase_if(steps, [](const Step& step) { return step.kind == StepKind::kWait; });
  }
  EXPECT_NE(bad.verdict(), "good");
  // Waiting for one step less than what the bytes need.
  bad = sample(CCOM_PIPELINED_TWO_D_RING, CCOM_ALL_REDUCE, 4, {2, 2}, 3);
  bad.steps(0, 1)[bad.find(0, StepKind::kWait, 1, 1)].position -= 1;
  EXPECT_THAT(bad.verdict(), HasSubstr("no wait orders the two"));
}

TEST(Checker, RefusesAWaitThatNeverEnds) {
  Sample bad = sample(CCOM_PIPELINED_TWO_D_RING, CCOM_ALL_REDUCE, 4, {2, 2}, 3);
  bad.steps(0, 1)[bad.find(0, StepKind::kWait, 2, 1)].position += 1;
  EXPECT_THAT(bad.verdict(), AllOf(HasSubstr("waits for"), HasSubstr("channel 0, which has")));
}

TEST(Checker, RefusesAScheduleThatNeedsMoreCreditsThanItHas) {
  // Two messages each way before either is received, where one may be on its way.
  Sample bad = sample(CCOM_MESH, CCOM_ALL_GATHER, 2);
  for (Rank rank = 0; rank < 2; ++rank) {
    auto& steps = bad.steps(rank);
    Step half = steps[0];
    half.bytes = 96;
    Step rest = half;
    rest.source.offset += 96;
    Step in = steps[1];
    in.bytes = 96;
    Step in_rest = in;
    in_rest.destination.offset += 96;
    steps = {half, rest, in, in_rest, steps[2]};
  }
  EXPECT_THAT(bad.verdict(1), HasSubstr("with a window of 1, nobody can go on"));
  EXPECT_THAT(bad.verdict(2), HasSubstr("with a window of 1"));
}

}  // namespace
}  // namespace neuron::ccom
