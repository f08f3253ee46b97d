// SPDX-License-Identifier: Apache-2.0
#include "ccom/simulator/idle_vote.h"

#include <gtest/gtest.h>

#include <functional>

namespace neuron::ccom {
namespace {

// Worker 0 of `vote` has found nothing while all were idle. Calls `other` before its access
// `before` from the vote on; returns whether it takes all for stuck. Counts the accesses.
bool agrees(IdleVote& vote, int before, const std::function<void()>& other, int& accesses) {
  const IdleVote::View seen = vote.view();
  EXPECT_TRUE(seen.all_idle);
  int at = 0;
  const bool agreed = vote.agree(0, seen, [&] {
    if (at++ == before) other();
  });
  accesses = at;
  return agreed;
}

TEST(IdleVote, WorkersThatHaveAllFoundNothingAreStuck) {
  IdleVote vote(2);
  vote.begin_idle();
  EXPECT_FALSE(vote.agree(0, vote.view())) << "worker 1 works";
  vote.begin_idle();
  EXPECT_FALSE(vote.agree(0, vote.view())) << "worker 1 has not looked for work";
  EXPECT_TRUE(vote.agree(1, vote.view()));
  EXPECT_TRUE(vote.agree(0, vote.view()));
}

TEST(IdleVote, AWorkerThatHasEndedAgreesWithAll) {
  IdleVote vote(2);
  vote.begin_idle();
  vote.end(1);
  EXPECT_TRUE(vote.agree(0, vote.view()));
}

// It may have left work for worker 0, wherever between two accesses of worker 0 that happens.
TEST(IdleVote, AWorkerThatGoesOnAndEndsMeanwhileIsNoDeadlock) {
  int accesses = 1;
  for (int before = 0; before < accesses; ++before) {
    IdleVote vote(3);
    vote.begin_idle();
    vote.begin_idle();
    vote.end(2);
    const auto other = [&] {
      vote.resume(1);
      vote.end(1);
    };
    EXPECT_FALSE(agrees(vote, before, other, accesses)) << "before access " << before;
    EXPECT_GT(accesses, 3);
    EXPECT_TRUE(vote.agree(0, vote.view()));
  }
}

TEST(IdleVote, AWorkerThatVotedAndGoesOnMeanwhileIsNoDeadlock) {
  int accesses = 1;
  for (int before = 0; before < accesses; ++before) {
    IdleVote vote(2);
    vote.begin_idle();
    vote.begin_idle();
    // Worker 1 cannot have voted for this count and go on: nobody was there to leave work. So it
    // votes for an older one.
    const IdleVote::View old = vote.view();
    vote.resume(0);
    vote.begin_idle();
    EXPECT_FALSE(vote.agree(1, old));
    const auto other = [&] {
      vote.resume(1);
      vote.begin_idle();
    };
    EXPECT_FALSE(agrees(vote, before, other, accesses)) << "before access " << before;
  }
}

}  // namespace
}  // namespace neuron::ccom
