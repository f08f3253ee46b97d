// SPDX-License-Identifier: Apache-2.0
#include "ccom/schedule/lookahead.h"

#include <gtest/gtest.h>

#include <vector>

namespace neuron::ccom {
namespace {

class Steps final : public Program {
 public:
  explicit Steps(std::vector<Step> steps) : steps_(std::move(steps)) {}
  bool next(Step& step) override {
    if (at_ == steps_.size()) return false;
    step = steps_[at_++];
    return true;
  }

 private:
  std::vector<Step> steps_;
  size_t at_ = 0;
};

Step send(Rank peer, uint64_t offset, uint64_t bytes = 8) {
  Step step;
  step.kind = StepKind::kSend;
  step.peer = peer;
  step.source = {Buffer::kOutput, offset};
  step.bytes = bytes;
  return step;
}

Step receive(Rank peer, uint64_t offset, uint64_t bytes = 8) {
  Step step;
  step.kind = StepKind::kReceive;
  step.peer = peer;
  step.destination = {Buffer::kOutput, offset};
  step.bytes = bytes;
  return step;
}

Step wait(uint16_t channel, uint64_t position) {
  Step step;
  step.kind = StepKind::kWait;
  step.channel = channel;
  step.position = position;
  return step;
}

Lookahead look(std::vector<Step> steps, uint32_t window = 4, uint32_t horizon = 8) {
  return {std::make_unique<Steps>(std::move(steps)), window, horizon};
}

std::vector<uint64_t> grant_all(Lookahead& ahead) {
  std::vector<uint64_t> offsets;
  uint64_t number = 0;
  while (const Step* step = ahead.grantable(number)) {
    offsets.push_back(step->destination.offset);
    ahead.granted();
  }
  return offsets;
}

using Offsets = std::vector<uint64_t>;

TEST(Lookahead, GrantsReceivesWhosePlacesAreFree) {
  Lookahead ahead = look({send(1, 0), receive(2, 8), receive(3, 16)});
  EXPECT_EQ(grant_all(ahead), (Offsets{8, 16}));
}

TEST(Lookahead, GrantsNoMoreThanTheWindowOfAPeer) {
  Lookahead ahead = look({receive(1, 0), receive(1, 8), receive(1, 16), receive(2, 24)}, 2);
  EXPECT_EQ(grant_all(ahead), (Offsets{0, 8, 24}));
  ahead.advance();
  EXPECT_EQ(grant_all(ahead), (Offsets{16}));
}

TEST(Lookahead, HoldsAGrantBackWhileAnEarlierStepUsesThePlace) {
  Lookahead ahead = look({send(1, 0), receive(2, 4)});
  EXPECT_EQ(grant_all(ahead), Offsets{});
  ahead.advance();
  EXPECT_EQ(grant_all(ahead), Offsets{});  // the send is on its way
  ahead.sent(1, 0);
  EXPECT_EQ(grant_all(ahead), (Offsets{4}));
}

TEST(Lookahead, KeepsTheOrderOfTheMessagesOfAPeer) {
  Lookahead ahead = look({send(9, 0), receive(1, 0), receive(1, 8), receive(2, 16)});
  EXPECT_EQ(grant_all(ahead), (Offsets{16}));  // 8 is free, but comes after 0
}

TEST(Lookahead, GrantsNothingBehindAWait) {
  Lookahead ahead = look({wait(1, 3), receive(1, 0)});
  EXPECT_EQ(grant_all(ahead), Offsets{});
  ahead.advance();
  EXPECT_EQ(grant_all(ahead), (Offsets{0}));
}

TEST(Lookahead, SeesNoFurtherThanItsHorizon) {
  Lookahead ahead = look({receive(1, 0), receive(2, 8), receive(3, 16)}, 4, 2);
  EXPECT_EQ(grant_all(ahead), (Offsets{0, 8}));
  ahead.advance();
  EXPECT_EQ(grant_all(ahead), (Offsets{16}));
}

TEST(Lookahead, NamesTheSendsThatAStepMustWaitFor) {
  Step copy;
  copy.kind = StepKind::kCopy;
  copy.source = {Buffer::kInput, 0};
  copy.destination = {Buffer::kOutput, 4};
  copy.bytes = 8;
  Lookahead ahead = look({send(1, 0), send(2, 8), send(1, 100), copy});
  Rank peer = 99;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ahead.sends_needed(peer), 0u);
    ahead.advance();
  }
  EXPECT_EQ(ahead.sends_needed(peer), 1u);
  EXPECT_EQ(peer, 1u);
  ahead.sent(1, 0);
  EXPECT_EQ(ahead.sends_needed(peer), 1u);
  EXPECT_EQ(peer, 2u);
  ahead.sent(2, 0);
  EXPECT_EQ(ahead.sends_needed(peer), 0u);
}

TEST(Lookahead, NumbersMessagesByPeer) {
  Lookahead ahead = look({send(1, 0), send(2, 0), send(1, 0), receive(1, 8)});
  const uint64_t expected[] = {0, 0, 1, 0};
  for (const uint64_t number : expected) {
    EXPECT_EQ(ahead.number(), number);
    ahead.advance();
  }
  EXPECT_EQ(ahead.current(), nullptr);
  EXPECT_EQ(ahead.position(), 4u);
}

TEST(Lookahead, HasCompletedStepsOnlyWhenTheirSendsAreDone) {
  Lookahead ahead = look({send(1, 0), receive(1, 8)});
  EXPECT_TRUE(ahead.completed(0));
  EXPECT_FALSE(ahead.completed(1));
  ahead.advance();
  EXPECT_FALSE(ahead.completed(1));
  ahead.sent(1, 0);
  EXPECT_TRUE(ahead.completed(1));
  EXPECT_FALSE(ahead.completed(2));
}

TEST(Lookahead, LetsExecutorsWithoutCreditsAdvancePastReceives) {
  Lookahead ahead = look({receive(1, 0), receive(1, 8)}, 1);
  ahead.advance();
  uint64_t number = 9;
  const Step* step = ahead.grantable(number);
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(number, 1u);
}

}  // namespace
}  // namespace neuron::ccom
