// SPDX-License-Identifier: Apache-2.0
#include "tests/system/network/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuron::network {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Event::Kind;

uint64_t expected_value(uint32_t, uint32_t, uint64_t sequence) { return 100 + sequence; }

Event event(uint64_t time, uint32_t rank, uint64_t sequence, Kind kind, std::string text = "",
            uint32_t comm = 0) {
  return {time,           rank, comm, sequence,
          "all_reduce",   8,    kind, kind == Kind::kOk ? 100 + sequence : 0,
          std::move(text)};
}

// Two ranks, one good operation, then rank 1 dies and rank 0 says so; comm 1 works.
std::vector<Event> good_history() {
  std::vector<Event> events;
  for (const uint32_t rank : {0u, 1u}) {
    events.push_back(event(0, rank, 0, Kind::kBegin));
    events.push_back(event(1, rank, 0, Kind::kOk));
    events.push_back(event(2, rank, 1, Kind::kBegin));
  }
  events.push_back(event(900, 0, 1, Kind::kError, "rank 1 does not answer"));
  events.push_back(event(2000, 0, 0, Kind::kBegin, "", 1));
  events.push_back(event(2001, 0, 0, Kind::kOk, "", 1));
  return events;
}

Expectations expectations() {
  Expectations expected;
  expected.ranks = 2;
  expected.deadline_ms = 1000;
  expected.gone = {1};
  expected.good = {{1, {0}, 1}};
  expected.failing = Expectations::Failing{0, {{1}, {0}}};
  return expected;
}

std::vector<std::string> complaints(const std::vector<Event>& events) {
  return check(events, expectations(), expected_value);
}

TEST(History, OneThatKeepsAllRulesHasNoComplaint) {
  EXPECT_THAT(complaints(good_history()), IsEmpty());
}

TEST(History, AResultThatDiffersFromTheReferenceBreaksSafety) {
  auto events = good_history();
  events[1].hash = 7;
  EXPECT_THAT(complaints(events), Contains(HasSubstr("safety: rank 0")));
}

TEST(History, AnOkBehindAnErrorBreaksAgreement) {
  auto events = good_history();
  events.push_back(event(950, 1, 1, Kind::kOk));
  EXPECT_THAT(complaints(events), IsEmpty());  // of the same operation: somebody was just in time
  events.push_back(event(960, 1, 2, Kind::kBegin));
  events.push_back(event(970, 1, 2, Kind::kOk));
  EXPECT_THAT(complaints(events), Contains(HasSubstr("agreement: rank 1")));
}

TEST(History, WhatNeverEndsBreaksLivenessUnlessItsRankIsGone) {
  auto events = good_history();
  events.push_back(event(960, 0, 2, Kind::kBegin));
  EXPECT_THAT(complaints(events), Contains(HasSubstr("liveness: rank 0")));
}

TEST(History, WhatEndsLongAfterItsDeadlineBreaksLiveness) {
  auto events = good_history();
  events[6].time_ms = 3500;
  EXPECT_THAT(complaints(events), Contains(HasSubstr("took 3498 ms")));
}

TEST(History, AnErrorThatNamesNobodyOrSomebodyElseBreaksDiagnosis) {
  auto events = good_history();
  for (const char* text : {"timed out", "rank 0 is slow", "rank 11 is dead", "1 is dead"}) {
    events[6].text = text;
    EXPECT_THAT(complaints(events), Contains(HasSubstr("diagnosis: rank 0"))) << text;
  }
  for (const char* text :
       {"rank 1 is dead", "missing: ranks 0, 1", "ranks 0 and 1", "of rank 1:"}) {
    events[6].text = text;
    EXPECT_THAT(complaints(events), IsEmpty()) << text;
  }
}

TEST(History, ANewCommunicatorThatFailsOrIsNotUsedBreaksRecovery) {
  auto events = good_history();
  events.back().kind = Kind::kError;
  EXPECT_THAT(complaints(events), Contains(HasSubstr("recovery: rank 0, communicator 1")));
  events.resize(events.size() - 2);
  EXPECT_THAT(complaints(events), Contains(HasSubstr("was not done")));
}

TEST(History, ARankThatIsNeverToldIsStranded) {
  auto events = good_history();
  auto expected = expectations();
  expected.gone = {};
  expected.ranks = 3;
  EXPECT_THAT(check(events, expected, expected_value), Contains(HasSubstr("stranded: rank 2")));
  events.erase(events.begin() + 6);
  EXPECT_THAT(check(events, expected, expected_value), Contains(HasSubstr("nobody noticed")));
}

TEST(History, LinesComeBackAsTheyWere) {
  const Event one = event(5, 3, 9, Kind::kError, "rank 2:\nno answer");
  const auto read = from_line(to_line(one));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rank, 3u);
  EXPECT_EQ(read->sequence, 9u);
  EXPECT_EQ(read->text, "rank 2: no answer");
  EXPECT_FALSE(from_line("something else"));
  EXPECT_FALSE(from_line("event 1 2 3 4 op 5 done 6"));
}

}  // namespace
}  // namespace neuron::network
