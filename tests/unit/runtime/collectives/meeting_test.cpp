// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/meeting.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace neuron::runtime {
namespace {

constexpr uint32_t kRanks = 2;

void meet(Meeting& meeting) {
  std::thread other([&] {
    EXPECT_TRUE(meeting.exchange(1, {}, base::Deadline::after(std::chrono::seconds(20))));
  });
  EXPECT_TRUE(meeting.exchange(0, {}, base::Deadline::after(std::chrono::seconds(20))));
  other.join();
}

TEST(Meeting, BehindAnExchangeAllRanksHaveTheSameNumber) {
  Meeting meeting(kRanks);
  meet(meeting);
  meet(meeting);
  EXPECT_EQ(meeting.exchanges(0), 2U);
  EXPECT_EQ(meeting.exchanges(1), 2U);
}

TEST(Meeting, RanksThatDidNotComeAreNamedInRuns) {
  EXPECT_EQ(missing_ranks({true, false, false, false, true, true, false, false}),
            "ranks 1-3, 6-7 of 8");
  EXPECT_EQ(missing_ranks({false, true, false}), "ranks 0, 2 of 3");
  EXPECT_EQ(missing_ranks({true, true, false, true}), "rank 2 of 4");
}

TEST(Meeting, AFailureIsThatOfWhatTheRanksConnectedBeforeIt) {
  Meeting meeting(kRanks);
  meet(meeting);
  const uint64_t first = meeting.exchanges(0);
  EXPECT_FALSE(meeting.failure_since(first));
  meet(meeting);
  meeting.note_failure(1, "a NaN");
  meeting.note_failure(0, "rank 1 has failed");
  EXPECT_EQ(meeting.failure_since(first), "rank 1 has failed (a NaN)");
  EXPECT_EQ(meeting.failure_since(first + 1), "rank 1 has failed (a NaN)") << "the second meeting";
  meet(meeting);
  EXPECT_FALSE(meeting.failure_since(meeting.exchanges(0))) << "it was before they met";
  meeting.note_failure(0, "a reset");
  EXPECT_EQ(meeting.failure_since(meeting.exchanges(1)), "rank 0 has failed (a reset)");
  EXPECT_EQ(meeting.failure_since(first), "rank 1 has failed (a NaN)") << "the cause";
}

TEST(Meeting, AFailureWhileARankWaitsInVainIsFromBeforeItComesAgain) {
  Meeting meeting(kRanks);
  meet(meeting);
  std::thread fails([&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (meeting.exchanges(0) == 1 && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    meeting.note_failure(0, "a NaN");
  });
  EXPECT_FALSE(meeting.exchange(0, {}, base::Deadline::after(std::chrono::seconds(1))));
  fails.join();
  EXPECT_TRUE(meeting.failure_since(1));
  meet(meeting);
  EXPECT_FALSE(meeting.failure_since(meeting.exchanges(0)));
}

TEST(Meeting, OfManyFailuresTheOldestAreForgotten) {
  Meeting meeting(1);
  for (size_t i = 0; i < 3 * Meeting::kFailures; ++i) {
    EXPECT_TRUE(meeting.exchange(0, {}, base::Deadline::after(std::chrono::seconds(20))));
    meeting.note_failure(0, std::to_string(i));
  }
  EXPECT_EQ(meeting.failure_since(0),
            "rank 0 has failed (" + std::to_string(2 * Meeting::kFailures) + ")");
}

}  // namespace
}  // namespace neuron::runtime
